// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"encoding/binary"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// telling are the labels and annotations of pods on which a verdict in this session may depend. Pods that differ in others are
// equal: every pod has some that only name it or its job.
type telling struct {
	// read are those that plugins look at.
	read framework.PodKeys
	// selected are the labels that selectors of pods refer to.
	selected map[string]*mentions
}

// mentions are the values of a label that selectors name. They tell others from these, but not from one another; every
// says that they tell all from one another.
type mentions struct {
	values map[string]bool
	every  bool
}

// tellingOf gathers what plugins say that they read, and the selectors of
//   - required anti-affinity of pods on nodes, which keeps pods away that have no affinity themselves;
//   - required affinity, anti-affinity and spread of the pods to be placed, which may select one another.
//
// Preferred affinity, and Services, by which pods are spread, move scores: nodeorder couples the pods they concern.
func tellingOf(ssn *framework.Session, plugins []layeredPlugin) *telling {
	t := &telling{read: framework.SomePodKeys(), selected: map[string]*mentions{}}
	for _, p := range plugins {
		if keys := ssn.PodKeysOf(p.name); !p.unbounded(ssn) {
			t.read = t.read.And(keys)
		}
	}
	for _, node := range ssn.NodeMap {
		for _, info := range node.GetPodsWithRequiredAntiAffinity() {
			t.addAffinity(info.GetPod())
		}
	}
	for _, job := range ssn.Jobs {
		for _, task := range job.TaskStatusIndex[api.Pending] {
			t.addAffinity(task.Pod)
			t.addSpread(task.Pod)
		}
	}
	return t
}

func (t *telling) addAffinity(pod *v1.Pod) {
	a := pod.Spec.Affinity
	if a == nil {
		return
	}
	if a.PodAffinity != nil {
		t.addTerms(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	if a.PodAntiAffinity != nil {
		t.addTerms(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
}

func (t *telling) addTerms(terms []v1.PodAffinityTerm) {
	for i := range terms {
		t.addSelector(terms[i].LabelSelector)
		t.addKeys(terms[i].MatchLabelKeys)
		t.addKeys(terms[i].MismatchLabelKeys)
	}
}

func (t *telling) addSpread(pod *v1.Pod) {
	for i := range pod.Spec.TopologySpreadConstraints {
		t.addSelector(pod.Spec.TopologySpreadConstraints[i].LabelSelector)
		t.addKeys(pod.Spec.TopologySpreadConstraints[i].MatchLabelKeys)
	}
}

func (t *telling) addSelector(selector *metav1.LabelSelector) {
	if selector == nil {
		return
	}
	for key, value := range selector.MatchLabels {
		t.mentions(key).values[value] = true
	}
	for i := range selector.MatchExpressions {
		mentioned := t.mentions(selector.MatchExpressions[i].Key)
		for _, value := range selector.MatchExpressions[i].Values {
			mentioned.values[value] = true
		}
	}
}

// addKeys takes in labels that are compared among pods.
func (t *telling) addKeys(keys []string) {
	for _, key := range keys {
		t.mentions(key).every = true
	}
}

func (t *telling) mentions(key string) *mentions {
	m, ok := t.selected[key]
	if !ok {
		m = &mentions{values: map[string]bool{}}
		t.selected[key] = m
	}
	return m
}

// appendLabels appends of the labels what tells pods apart.
func (t *telling) appendLabels(b []byte, labels map[string]string) []byte {
	var room [16]string
	keys := room[:0]
	for key := range labels {
		if t.selected[key] != nil || t.read.Has(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	b = binary.AppendUvarint(b, uint64(len(keys)))
	for _, key := range keys {
		value, mentioned := labels[key], t.selected[key]
		named := t.read.Has(key) || mentioned.every || mentioned.values[value]
		if b = appendBool(appendString(b, key), named); named {
			b = appendString(b, value)
		}
	}
	return b
}

// appendAnnotations appends those that tell pods apart.
func (t *telling) appendAnnotations(b []byte, annotations map[string]string) []byte {
	var room [16]string
	keys := room[:0]
	for key := range annotations {
		if t.read.Has(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	b = binary.AppendUvarint(b, uint64(len(keys)))
	for _, key := range keys {
		b = appendString(appendString(b, key), annotations[key])
	}
	return b
}
