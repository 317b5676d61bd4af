// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"encoding/binary"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/keybytes"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// selectorLabelKeys are the labels and annotations of pods that a filter result in this session may depend on. Pods that differ only in
// other labels and annotations are treated as equal: every pod has some that only name the pod or its job.
type selectorLabelKeys struct {
	// read are the keys of labels and annotations that plugins read.
	read framework.PodKeys
	// selected are the labels that selectors in affinity terms and spread constraints of pods name, by label key.
	selected map[string]*mentionedValues
}

// mentionedValues are the values of a label that selectors name. All other values are equivalent. If every is set, all values
// are distinguished.
type mentionedValues struct {
	values map[string]bool
	every  bool
}

// newSelectorLabelKeys collects the keys that plugins declare, and the selectors of
//   - required anti-affinity of pods on nodes, which keeps away pods that have no affinity themselves;
//   - required affinity, anti-affinity and spread of the pods to be placed, which may select one another.
//
// Preferred affinity, and Services, which spread pods, affect scores only: for pods with such preferences, the scores of
// plugin nodeorder are not cached. pending counts the pods to be placed.
func newSelectorLabelKeys(ssn *framework.Session, plugins []string) (k *selectorLabelKeys, pending int) {
	k = &selectorLabelKeys{read: framework.SomePodKeys(), selected: map[string]*mentionedValues{}}
	for _, plugin := range plugins {
		if !ssn.Signers.ReadsAnything(plugin) {
			k.read = k.read.And(ssn.Signers.PodKeys(plugin))
		}
	}
	for _, node := range ssn.NodeMap {
		for _, info := range node.GetPodsWithRequiredAntiAffinity() {
			k.addAffinity(info.GetPod())
		}
	}
	for _, job := range ssn.Jobs {
		tasks := job.TaskStatusIndex[api.Pending]
		pending += len(tasks)
		for _, task := range tasks {
			k.addAffinity(task.Pod)
			k.addSpread(task.Pod)
		}
	}
	return k, pending
}

func (k *selectorLabelKeys) addAffinity(pod *v1.Pod) {
	a := pod.Spec.Affinity
	if a == nil {
		return
	}
	if a.PodAffinity != nil {
		k.addTerms(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	if a.PodAntiAffinity != nil {
		k.addTerms(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
}

func (k *selectorLabelKeys) addTerms(terms []v1.PodAffinityTerm) {
	for i := range terms {
		k.addSelector(terms[i].LabelSelector)
		k.addKeys(terms[i].MatchLabelKeys)
		k.addKeys(terms[i].MismatchLabelKeys)
	}
}

func (k *selectorLabelKeys) addSpread(pod *v1.Pod) {
	for i := range pod.Spec.TopologySpreadConstraints {
		k.addSelector(pod.Spec.TopologySpreadConstraints[i].LabelSelector)
		k.addKeys(pod.Spec.TopologySpreadConstraints[i].MatchLabelKeys)
	}
}

func (k *selectorLabelKeys) addSelector(selector *metav1.LabelSelector) {
	if selector == nil {
		return
	}
	for key, value := range selector.MatchLabels {
		k.mentioned(key).values[value] = true
	}
	for i := range selector.MatchExpressions {
		mentioned := k.mentioned(selector.MatchExpressions[i].Key)
		for _, value := range selector.MatchExpressions[i].Values {
			mentioned.values[value] = true
		}
	}
}

// addKeys adds keys of labels whose values are compared among pods: matchLabelKeys and mismatchLabelKeys (KEP-3633, and
// KEP-3243 for topology spread).
func (k *selectorLabelKeys) addKeys(keys []string) {
	for _, key := range keys {
		k.mentioned(key).every = true
	}
}

func (k *selectorLabelKeys) mentioned(key string) *mentionedValues {
	m, ok := k.selected[key]
	if !ok {
		m = &mentionedValues{values: map[string]bool{}}
		k.selected[key] = m
	}
	return m
}

// appendLabels appends the pod's labels, as far as filter results may depend on them.
func (k *selectorLabelKeys) appendLabels(b []byte, labels map[string]string) []byte {
	if len(k.selected) == 0 && k.read.None() {
		return append(b, 0)
	}
	var room [16]string
	keys := room[:0]
	for key := range labels {
		if k.selected[key] != nil || k.read.Has(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	b = binary.AppendUvarint(b, uint64(len(keys)))
	for _, key := range keys {
		value, mentioned := labels[key], k.selected[key]
		named := k.read.Has(key) || mentioned.every || mentioned.values[value]
		if b = keybytes.Flag(keybytes.Text(b, key), named); named {
			b = keybytes.Text(b, value)
		}
	}
	return b
}

// appendAnnotations appends the pod's annotations, as far as filter results may depend on them.
func (k *selectorLabelKeys) appendAnnotations(b []byte, annotations map[string]string) []byte {
	if k.read.None() {
		return append(b, 0)
	}
	var room [16]string
	keys := room[:0]
	for key := range annotations {
		if k.read.Has(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	b = binary.AppendUvarint(b, uint64(len(keys)))
	for _, key := range keys {
		b = keybytes.Text(keybytes.Text(b, key), annotations[key])
	}
	return b
}
