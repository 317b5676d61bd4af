// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"crypto/sha256"
	"slices"
	"strings"

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
	// selected are the labels that selectors in affinity terms and spread constraints name, by the namespace of the pods that
	// the selectors may select. Selectors with a namespaceSelector are under allNamespaces.
	selected map[string]namedLabels
}

// allNamespaces is the key of selectors that may select pods of any namespace. No namespace has this name.
const allNamespaces = ""

// namedLabels are the labels that selectors name, by label key.
type namedLabels map[string]*namedValues

// namedValues are the values of a label that selectors name. Values that no selector names are equivalent to each
// other. Two values are equivalent, too, if the same requirements name both: a requirement with 1,000 values does not
// distinguish them.
type namedValues struct {
	// known are the requirements. A requirement is given by its values, or by a digest of them if they are long.
	known map[string]bool
	// requirements has, by value, the requirements that name it.
	requirements map[string][]string
	// classes caches the results of classOf, by value.
	classes map[string]string
}

// newSelectorLabelKeys collects the keys that plugins declare, and the selectors of
//   - required anti-affinity of pods on nodes, which keeps away pods that have no affinity themselves;
//   - required affinity, anti-affinity and spread of the pods to be placed, which may select one another.
//
// Preferred affinity, and Services, which spread pods, affect scores only: for pods with such preferences, the scores of
// plugin nodeorder are not cached. pending counts the pods to be placed.
func newSelectorLabelKeys(ssn *framework.Session, plugins []string) (k *selectorLabelKeys, pending int) {
	k = &selectorLabelKeys{read: framework.SomePodKeys(), selected: map[string]namedLabels{}}
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
		k.addTerms(pod, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	if a.PodAntiAffinity != nil {
		k.addTerms(pod, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
}

func (k *selectorLabelKeys) addTerms(pod *v1.Pod, terms []v1.PodAffinityTerm) {
	for i := range terms {
		namespaces := terms[i].Namespaces
		switch {
		case terms[i].NamespaceSelector != nil:
			namespaces = []string{allNamespaces}
		case len(namespaces) == 0:
			namespaces = []string{pod.Namespace}
		}
		for _, namespace := range namespaces {
			k.addSelector(namespace, terms[i].LabelSelector)
			k.addKeys(namespace, pod, terms[i].MatchLabelKeys)
			k.addKeys(namespace, pod, terms[i].MismatchLabelKeys)
		}
	}
}

func (k *selectorLabelKeys) addSpread(pod *v1.Pod) {
	for i := range pod.Spec.TopologySpreadConstraints {
		k.addSelector(pod.Namespace, pod.Spec.TopologySpreadConstraints[i].LabelSelector)
		k.addKeys(pod.Namespace, pod, pod.Spec.TopologySpreadConstraints[i].MatchLabelKeys)
	}
}

func (k *selectorLabelKeys) addSelector(namespace string, selector *metav1.LabelSelector) {
	if selector == nil {
		return
	}
	for key, value := range selector.MatchLabels {
		k.named(namespace, key).add(value)
	}
	for i := range selector.MatchExpressions {
		k.named(namespace, selector.MatchExpressions[i].Key).add(selector.MatchExpressions[i].Values...)
	}
}

// addKeys adds the labels in matchLabelKeys or mismatchLabelKeys (KEP-3633, and KEP-3243 for topology spread). They stand
// for requirements that name the pod's own values. Keys that the pod does not have are ignored.
func (k *selectorLabelKeys) addKeys(namespace string, pod *v1.Pod, keys []string) {
	for _, key := range keys {
		if value, ok := pod.Labels[key]; ok {
			k.named(namespace, key).add(value)
		}
	}
}

func (k *selectorLabelKeys) named(namespace, key string) *namedValues {
	labels, ok := k.selected[namespace]
	if !ok {
		labels = namedLabels{}
		k.selected[namespace] = labels
	}
	values, ok := labels[key]
	if !ok {
		values = &namedValues{known: map[string]bool{}, requirements: map[string][]string{}, classes: map[string]string{}}
		labels[key] = values
	}
	return values
}

// add adds a requirement with the values. A requirement without values asks only whether a pod has the label.
func (n *namedValues) add(values ...string) {
	if len(values) == 0 {
		return
	}
	requirement := shorten(strings.Join(values, ",") + ",") // a label value has no comma
	if n.known[requirement] {
		return
	}
	n.known[requirement] = true
	for _, value := range values {
		if names := n.requirements[value]; len(names) == 0 || names[len(names)-1] != requirement {
			n.requirements[value] = append(names, requirement)
		}
	}
}

// classOf returns a text that is equal for equivalent values. It is empty for a value that no requirement names.
func (n *namedValues) classOf(value string) string {
	if n == nil || len(n.requirements[value]) == 0 {
		return ""
	}
	class, ok := n.classes[value]
	if !ok {
		class = shorten(strings.Join(slices.Sorted(slices.Values(n.requirements[value])), ";"))
		n.classes[value] = class
	}
	return class
}

// shorten returns the text, or a digest of the text if the digest is shorter.
func shorten(text string) string {
	if len(text) <= sha256.Size {
		return text
	}
	digest := sha256.Sum256([]byte(text))
	return string(digest[:])
}

// appendLabels appends the labels of a pod of the namespace, as far as filter results may depend on them.
func (k *selectorLabelKeys) appendLabels(b []byte, namespace string, labels map[string]string) []byte {
	own, all := k.selected[namespace], k.selected[allNamespaces]
	if len(own) == 0 && len(all) == 0 && k.read.None() {
		return append(b, 0)
	}
	has := func(key string) bool { return own[key] != nil || all[key] != nil || k.read.Has(key) }
	return keybytes.MapOf(b, labels, has, func(b []byte, key string) []byte {
		if k.read.Has(key) {
			return keybytes.Text(keybytes.Flag(b, true), labels[key])
		}
		return keybytes.Text(keybytes.Flag(b, false), own[key].classOf(labels[key]), all[key].classOf(labels[key]))
	})
}

// appendAnnotations appends the pod's annotations, as far as filter results may depend on them.
func (k *selectorLabelKeys) appendAnnotations(b []byte, annotations map[string]string) []byte {
	if k.read.None() {
		return append(b, 0)
	}
	return keybytes.MapOf(b, annotations, k.read.Has, func(b []byte, key string) []byte { return keybytes.Text(b, annotations[key]) })
}
