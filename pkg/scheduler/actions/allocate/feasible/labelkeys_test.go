// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"bytes"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestLabelsAndAnnotationsThatSeparateTaskClasses compares pairs of pods that are equal except for a label or an
// annotation.
func TestLabelsAndAnnotationsThatSeparateTaskClasses(t *testing.T) {
	label := func(key, value string) *v1.Pod { return schedtest.MakePod().Name("p").Label(key, value).Obj() }
	annotation := func(key, value string) *v1.Pod { return schedtest.MakePod().Name("p").Annotation(key, value).Obj() }
	bare := schedtest.MakePod().Name("p").Obj()
	away := func(selector metav1.LabelSelector) *v1.Pod {
		return schedtest.MakePod().Affinity(v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{LabelSelector: &selector}},
		}}).Obj()
	}
	where := func(operator metav1.LabelSelectorOperator, values ...string) metav1.LabelSelector {
		return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: operator, Values: values}}}
	}
	long := func(name string) (values []string) {
		for i := range 20 {
			values = append(values, fmt.Sprintf("%s-%d", name, i))
		}
		return values
	}
	in := func(namespace string, pod *v1.Pod) *v1.Pod {
		pod = pod.DeepCopy()
		pod.Namespace = namespace
		return pod
	}
	named := metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
	preferring := schedtest.MakePod().Affinity(v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{{PodAffinityTerm: v1.PodAffinityTerm{LabelSelector: &named}}},
	}}).Obj()
	near := schedtest.MakePod().Affinity(v1.Affinity{PodAffinity: &v1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{LabelSelector: &named}},
	}}).Obj()
	spread := schedtest.MakePod().Label("revision", "1").Obj()
	spread.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{LabelSelector: &named, MatchLabelKeys: []string{"revision"}}}
	mismatched := schedtest.MakePod().Label("revision", "1").Label("tenant", "1").Affinity(v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{MatchLabelKeys: []string{"revision"}, MismatchLabelKeys: []string{"tenant"}}},
	}}).Obj()

	unmatched := mismatched.DeepCopy()
	unmatched.Labels = nil
	over := func(namespaceSelector *metav1.LabelSelector, namespaces ...string) *v1.Pod {
		pod := away(named)
		term := &pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
		term.NamespaceSelector, term.Namespaces = namespaceSelector, namespaces
		return pod
	}

	tests := map[string]struct {
		others []*v1.Pod
		reads  []string
		l, r   *v1.Pod
		apart  bool
	}{
		"a label that nothing refers to":                                     {l: label("app", "a"), r: label("app", "b")},
		"an annotation that nothing reads":                                   {l: annotation("note", "a"), r: annotation("note", "b")},
		"one has a label that nothing refers to":                             {l: label("app", "a"), r: bare},
		"a label that a term names":                                          {others: []*v1.Pod{away(named)}, l: label("app", "a"), r: label("app", "b"), apart: true},
		"a label that a term names, and none":                                {others: []*v1.Pod{away(named)}, l: label("app", "a"), r: bare, apart: true},
		"values that no term names":                                          {others: []*v1.Pod{away(named)}, l: label("app", "b"), r: label("app", "c")},
		"a value that no term names, and none":                               {others: []*v1.Pod{away(named)}, l: label("app", "b"), r: bare, apart: true},
		"another label than a term names":                                    {others: []*v1.Pod{away(named)}, l: label("job", "a"), r: label("job", "b")},
		"an annotation with the key of a term":                               {others: []*v1.Pod{away(named)}, l: annotation("app", "a"), r: annotation("app", "b")},
		"a value that an expression excludes":                                {others: []*v1.Pod{away(where(metav1.LabelSelectorOpNotIn, "a"))}, l: label("app", "a"), r: label("app", "b"), apart: true},
		"values that an expression does not exclude":                         {others: []*v1.Pod{away(where(metav1.LabelSelectorOpNotIn, "a"))}, l: label("app", "b"), r: label("app", "c")},
		"a label that is to be there":                                        {others: []*v1.Pod{away(where(metav1.LabelSelectorOpExists))}, l: label("app", "a"), r: bare, apart: true},
		"values of a label that is to be there":                              {others: []*v1.Pod{away(where(metav1.LabelSelectorOpExists))}, l: label("app", "a"), r: label("app", "b")},
		"one of the values of an expression, and the other":                  {others: []*v1.Pod{away(where(metav1.LabelSelectorOpIn, "a", "b"))}, l: label("app", "a"), r: label("app", "b")},
		"one of the values of an expression, and another":                    {others: []*v1.Pod{away(where(metav1.LabelSelectorOpIn, "a", "b"))}, l: label("app", "a"), r: label("app", "c"), apart: true},
		"values of which a second expression names one":                      {others: []*v1.Pod{away(where(metav1.LabelSelectorOpIn, "a", "b")), away(where(metav1.LabelSelectorOpIn, "b", "c"))}, l: label("app", "a"), r: label("app", "b"), apart: true},
		"two long expressions":                                               {others: []*v1.Pod{away(where(metav1.LabelSelectorOpIn, long("a")...)), away(where(metav1.LabelSelectorOpIn, long("b")...))}, l: label("app", "a-1"), r: label("app", "b-1"), apart: true},
		"two values of a long expression":                                    {others: []*v1.Pod{away(where(metav1.LabelSelectorOpIn, long("a")...)), away(where(metav1.LabelSelectorOpIn, long("b")...))}, l: label("app", "a-1"), r: label("app", "a-2")},
		"an empty value that an expression names, beside one without values": {others: []*v1.Pod{away(where(metav1.LabelSelectorOpExists)), away(where(metav1.LabelSelectorOpIn, ""))}, l: label("app", ""), r: label("app", "c"), apart: true},
		"an empty value that an expression names":                            {others: []*v1.Pod{away(where(metav1.LabelSelectorOpIn, ""))}, l: label("app", ""), r: label("app", "c"), apart: true},
		"a term for another namespace":                                       {others: []*v1.Pod{in("other", away(named))}, l: label("app", "a"), r: label("app", "b")},
		"spread in another namespace":                                        {others: []*v1.Pod{in("other", spread)}, l: label("revision", "1"), r: label("revision", "2")},
		"a term for all namespaces":                                          {others: []*v1.Pod{in("other", over(&metav1.LabelSelector{}))}, l: label("app", "a"), r: label("app", "b"), apart: true},
		"a term for this namespace, from another one":                        {others: []*v1.Pod{in("other", over(nil, schedtest.Namespace))}, l: label("app", "a"), r: label("app", "b"), apart: true},
		"a term of this namespace for another one":                           {others: []*v1.Pod{over(nil, "other")}, l: label("app", "a"), r: label("app", "b")},
		"a label whose values are to match, of a pod without it":             {others: []*v1.Pod{unmatched}, l: label("revision", "1"), r: label("revision", "2")},
		"a label that required affinity names":                               {others: []*v1.Pod{near}, l: label("app", "a"), r: label("app", "b"), apart: true},
		"a label that spread names":                                          {others: []*v1.Pod{spread}, l: label("app", "a"), r: label("app", "b"), apart: true},
		"a label by whose values pods are spread":                            {others: []*v1.Pod{spread}, l: label("revision", "1"), r: label("revision", "2"), apart: true},
		"a label whose values are to match":                                  {others: []*v1.Pod{mismatched}, l: label("revision", "1"), r: label("revision", "2"), apart: true},
		"a label whose values are to differ":                                 {others: []*v1.Pod{mismatched}, l: label("tenant", "1"), r: label("tenant", "2"), apart: true},
		"a label that a preference names":                                    {others: []*v1.Pod{preferring}, l: label("app", "a"), r: label("app", "b")},
		"an annotation that a plugin reads":                                  {reads: []string{"card"}, l: annotation("card", "a"), r: annotation("card", "b"), apart: true},
		"a label that a plugin reads":                                        {reads: []string{"card"}, l: label("card", "a"), r: label("card", "b"), apart: true},
		"a prefix that a plugin reads":                                       {reads: []string{"vendor.com/"}, l: annotation("vendor.com/card", "a"), r: annotation("vendor.com/card", "b"), apart: true},
		"a key that begins like one that a plugin reads":                     {reads: []string{"card"}, l: annotation("cards", "a"), r: annotation("cards", "b")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			told := &selectorLabelKeys{read: framework.SomePodKeys(tc.reads...), selected: map[string]namedLabels{}}
			for _, other := range tc.others {
				told.addAffinity(other)
				told.addSpread(other)
			}
			l, r := classKeyOf(api.NewTaskInfo(tc.l), told, noKeys), classKeyOf(api.NewTaskInfo(tc.r), told, noKeys)
			if apart := !bytes.Equal(l, r); apart != tc.apart {
				t.Errorf("distinguished: %t, want %t", apart, tc.apart)
			}
		})
	}
}
