// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	kubeframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestAffinityIsReadOnce checks that the filter parses the affinity of a pod only once, and that its results equal
// those of a filter that parses the affinity for each node.
func TestAffinityIsReadOnce(t *testing.T) {
	needs := func(key string, terms ...v1.NodeSelectorTerm) *v1.Pod {
		pod := schedtest.MakePod().Name("p").Obj()
		if key != "" {
			pod.Spec.NodeSelector = map[string]string{key: "x"}
		}
		if terms != nil {
			pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: terms}}}
		}
		return pod
	}
	labelled := func(key string) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: v1.NodeSelectorOpExists}}}
	}
	named := func(name string) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{name}}}}
	}
	tests := map[string]struct {
		pod  *v1.Pod
		want map[string]bool
	}{
		"nothing":                         {pod: needs(""), want: map[string]bool{"a": true, "b": true}},
		"a label":                         {pod: needs("a"), want: map[string]bool{"a": true, "b": false}},
		"one of two labels":               {pod: needs("", labelled("none"), labelled("b")), want: map[string]bool{"a": false, "b": true}},
		"a name":                          {pod: needs("", named("a")), want: map[string]bool{"a": true, "b": false}},
		"one of two names":                {pod: needs("", named("none"), named("b")), want: map[string]bool{"a": false, "b": true}},
		"a label, and a name without it":  {pod: needs("a", named("b")), want: map[string]bool{"a": false, "b": false}},
		"one of no terms":                 {pod: needs("", []v1.NodeSelectorTerm{}...), want: map[string]bool{"a": false, "b": false}},
		"one term that is empty":          {pod: needs("", v1.NodeSelectorTerm{}), want: map[string]bool{"a": false, "b": false}},
		"a term with a key that is wrong": {pod: needs("", labelled("not a key"), labelled("b")), want: map[string]bool{"a": false, "b": true}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			state, fresh := kubeframework.NewCycleState(), kubeframework.NewCycleState()
			before := tt.pod.DeepCopy()
			readAffinity(state, tt.pod)
			if diff := cmp.Diff(before, tt.pod); diff != "" {
				t.Errorf("the pod was changed (-before +after):\n%s", diff)
			}
			got, alone, read := map[string]bool{}, map[string]bool{}, map[string]bool{}
			for _, node := range []string{"a", "b"} {
				info := kubeframework.NewNodeInfo()
				info.SetNode(schedtest.MakeNode().Name(node).Label(node, "x").Obj())
				filter := &nodeaffinity.NodeAffinity{}
				got[node] = filter.Filter(context.Background(), state, tt.pod, info).IsSuccess()
				alone[node] = filter.Filter(context.Background(), fresh, tt.pod, info).IsSuccess()
				// A filter that parsed the pod's affinity again would accept this pod, which requires no label, on all
				// nodes.
				read[node] = filter.Filter(context.Background(), state, needs(""), info).IsSuccess()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(alone, got); diff != "" {
				t.Errorf("nodes (-parsed for each node +parsed once):\n%s", diff)
			}
			if diff := cmp.Diff(got, read); diff != "" {
				t.Errorf("the affinity was parsed again (-parsed once +second pod):\n%s", diff)
			}
		})
	}
}
