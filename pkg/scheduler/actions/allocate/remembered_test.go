// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// refuser is a plugin whose word on readiness is no.
type refuser struct{ ready *bool }

func (refuser) Name() string { return "refuser" }
func (p refuser) OnSessionOpen(ssn *framework.Session) {
	ssn.Session.AddJobReadyFn("refuser", func(any) bool { return *p.ready })
}
func (refuser) OnSessionClose(*framework.Session) {}

// TestWhatNumbersAreNotToBlameForIsNotRemembered: gang b fits two nodes of 4 cpus, which numbers know. Whatever else kept it, or one like it,
// from being placed in former sessions, it is placed once that is gone.
func TestWhatNumbersAreNotToBlameForIsNotRemembered(t *testing.T) {
	ready := true
	tests := map[string]struct {
		// before is what keeps gangs waiting, and after what it becomes; boundBefore is how many are bound all the same.
		before, after func(w *sessiontest.World)
		boundBefore   int
	}{
		"a gang like it has a member with a gate": {before: func(w *sessiontest.World) {
			pods, a := gang("a", "3", "2", "2", "1")
			pods[3].Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "x"}}
			w.PodGroups[0].DeepCopy().Spec.DeepCopyInto(&a.Spec)
			a.Spec.MinMember, a.Annotations = 4, w.PodGroups[0].Annotations
			w.Pods, w.PodGroups = append(pods, w.Pods...), append([]*v1beta1.PodGroup{a}, w.PodGroups...)
		}, boundBefore: 3},
		"a sub-group like it is not complete": {before: func(w *sessiontest.World) {
			pods, a := gang("a", "3", "3", "3", "3", "3", "2", "2")
			w.PodGroups[0].DeepCopy().Spec.DeepCopyInto(&a.Spec)
			a.Spec.MinMember, a.Annotations = 4, w.PodGroups[0].Annotations
			a.Spec.SubGroupPolicy = schedtest.MakePodGroup().SubGroups("cells", "cell", 1, 4).Obj().Spec.SubGroupPolicy
			for i, pod := range pods {
				pod.Labels = map[string]string{"cell": fmt.Sprint(i / 4)}
			}
			w.Pods, w.PodGroups = append(pods, w.Pods...), append([]*v1beta1.PodGroup{a}, w.PodGroups...)
		}, boundBefore: 3},
		"a node is another scheduler's": {before: func(w *sessiontest.World) {
			w.Shard = &sessiontest.Shard{Mode: "hard", Nodes: []string{"n1"}}
		}, after: func(w *sessiontest.World) {
			w.Shard = &sessiontest.Shard{Mode: "hard", Nodes: []string{"n1", "n2"}}
		}},
		"another plugin does not call it ready": {before: func(*sessiontest.World) { ready = false }, after: func(*sessiontest.World) { ready = true }},
	}
	for name, tc := range tests {
		for where, lies := range map[string]func(*v1beta1.PodGroup){"HyperNode": inOneHyperNode, "cluster": inOneCluster} {
			t.Run(name+", "+where, func(t *testing.T) {
				world := func(change func(*sessiontest.World)) sessiontest.World {
					pods, b := gang("b", "3", "2", "2")
					lies(b)
					w := sessiontest.World{Nodes: []*v1.Node{node("n1", "ib-a", "4"), node("n2", "ib-a", "4")}, Pods: pods, PodGroups: []*v1beta1.PodGroup{b}}
					w.HyperNodes = append(w.HyperNodes, schedtest.MakeHyperNode().Name("rack").Nodes("n1", "n2").Obj())
					if change != nil {
						change(&w)
					}
					return w
				}
				c := newCounting(t, world(tc.before))
				c.registry.RegisterPlugin(framework.PluginSpec{Name: "refuser", New: func(framework.Arguments, framework.Handle) (framework.Plugin, error) { return refuser{&ready}, nil }})
				c.conf += "  - name: refuser\n    enablePredicate: false\n    enableNodeOrder: false\n    enableBestNode: false\n"
				for range 2 {
					if _, bound := c.session(); bound != tc.boundBefore {
						t.Errorf("%d members were bound before, want %d", bound, tc.boundBefore)
					}
				}
				c.world = world(tc.after)
				if _, bound := c.session(); bound != 3 {
					t.Errorf("%d members were bound after, want all 3: %s", bound, c.says)
				}
			})
		}
	}
}
