// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// randomLabels makes random pods and selectors. The pods' labels and the selectors use few keys and values, so that many
// pods are of one class.
type randomLabels struct {
	*rand.Rand
	values []string
}

func (r randomLabels) oneOf(texts ...string) string { return texts[r.IntN(len(texts))] }

func (r randomLabels) key() string { return r.oneOf("k", "l") }

func (r randomLabels) pod() *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.oneOf("a", "b", "c"), Labels: map[string]string{}}}
	for _, key := range []string{"k", "l"} {
		if r.IntN(4) > 0 {
			pod.Labels[key] = r.oneOf(r.values...)
		}
	}
	return pod
}

// selector returns a selector of up to two labels and up to two expressions, or nil.
func (r randomLabels) selector() *metav1.LabelSelector {
	if r.IntN(12) == 0 {
		return nil
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	if r.IntN(2) == 0 {
		for range 1 + r.IntN(2) {
			selector.MatchLabels[r.key()] = r.oneOf(r.values...)
		}
	}
	operators := []metav1.LabelSelectorOperator{
		metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist, metav1.LabelSelectorOpIn,
	}
	for range r.IntN(3) {
		e := metav1.LabelSelectorRequirement{Key: r.key(), Operator: operators[r.IntN(len(operators))]}
		if e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpNotIn {
			for range 1 + r.IntN(4) {
				e.Values = append(e.Values, r.oneOf(r.values...))
			}
		}
		selector.MatchExpressions = append(selector.MatchExpressions, e)
	}
	return selector
}

// addTerm gives the pod a required affinity or anti-affinity term. teams has the labels of the namespaces. addTerm
// returns whether the term matches a pod, as Kubernetes decides it.
func (r randomLabels) addTerm(t *testing.T, pod *v1.Pod, teams map[string]labels.Set) func(*v1.Pod) bool {
	terms := []v1.PodAffinityTerm{{LabelSelector: r.selector(), TopologyKey: "zone"}}
	for range r.IntN(3) {
		terms[0].Namespaces = append(terms[0].Namespaces, r.oneOf("a", "b", "c"))
	}
	switch r.IntN(4) {
	case 0:
		terms[0].NamespaceSelector = &metav1.LabelSelector{}
	case 1:
		terms[0].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "red"}}
	}
	pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
	if r.IntN(2) == 0 {
		pod.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
	}
	parsed, err := k8sframework.GetAffinityTerms(pod, terms)
	if err != nil {
		t.Fatal(err)
	}
	return func(other *v1.Pod) bool { return parsed[0].Matches(other, teams[other.Namespace]) }
}

// addSpread gives the pod a topology spread constraint. It returns whether the constraint counts a pod.
func (r randomLabels) addSpread(t *testing.T, pod *v1.Pod) func(*v1.Pod) bool {
	constraint := v1.TopologySpreadConstraint{LabelSelector: r.selector(), MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: v1.DoNotSchedule}
	selector, err := metav1.LabelSelectorAsSelector(constraint.LabelSelector)
	if err != nil {
		t.Fatal(err)
	}
	own := labels.Set{}
	if key := r.key(); r.IntN(2) == 0 {
		constraint.MatchLabelKeys = []string{key}
		if value, ok := pod.Labels[key]; ok {
			own[key] = value
		}
	}
	pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{constraint}
	return func(other *v1.Pod) bool {
		set := labels.Set(other.Labels)
		return other.Namespace == pod.Namespace && selector.Matches(set) && own.AsSelector().Matches(set)
	}
}

// TestPodsOfOneClassMatchTheSameSelectors compares random pods of which the class keys have equal labels. Each affinity
// term and each spread constraint must match both pods or none of them, as Kubernetes decides it.
func TestPodsOfOneClassMatchTheSameSelectors(t *testing.T) {
	tests := map[string][]string{
		"values of which one is empty": {"", "1", "2", "3"},
		"values of which two are long": {"1", "2", "3", "4", "5", "a-label-value-of-more-than-32-bytes-1", "a-label-value-of-more-than-32-bytes-2"},
	}
	for name, values := range tests {
		t.Run(name, func(t *testing.T) {
			alike := 0 // pods that share a class with a pod with other labels
			for seed := range uint64(2000) {
				r := randomLabels{Rand: rand.New(rand.NewPCG(seed, 0)), values: values}
				teams := map[string]labels.Set{}
				for _, namespace := range []string{"a", "b", "c"} {
					teams[namespace] = labels.Set{"team": r.oneOf("red", "blue")}
				}
				keys := &selectorLabelKeys{read: framework.SomePodKeys(), selected: map[string]namedLabels{}}
				var owners []*v1.Pod
				var matches []func(*v1.Pod) bool
				for range 1 + r.IntN(3) {
					owner := r.pod()
					if r.IntN(3) == 0 {
						matches = append(matches, r.addSpread(t, owner))
					} else {
						matches = append(matches, r.addTerm(t, owner, teams))
					}
					keys.addAffinity(owner)
					keys.addSpread(owner)
					owners = append(owners, owner)
				}
				first := map[string]*v1.Pod{} // by class
				for range 12 {
					pod := r.pod()
					class := pod.Namespace + string(keys.appendLabels(nil, pod.Namespace, pod.Labels))
					same, ok := first[class]
					if !ok {
						first[class] = pod
						continue
					}
					if !labels.Equals(pod.Labels, same.Labels) {
						alike++
					}
					for i, match := range matches {
						if match(pod) != match(same) {
							t.Fatalf("seed %d: pods of namespace %s with labels %q and %q are of one class, but only one of them is matched by %v %v of a pod of namespace %s with labels %q",
								seed, pod.Namespace, pod.Labels, same.Labels, owners[i].Spec.Affinity, owners[i].Spec.TopologySpreadConstraints, owners[i].Namespace, owners[i].Labels)
						}
					}
				}
			}
			if alike == 0 {
				t.Error("no two pods with different labels are of one class")
			}
		})
	}
}
