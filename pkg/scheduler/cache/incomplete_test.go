// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// witness is a plugin whose pre-bind step counts how often it runs.
type witness struct{ began *atomic.Int32 }

func (witness) Name() string                      { return "witness" }
func (witness) OnSessionClose(*framework.Session) {}
func (p witness) OnSessionOpen(ssn *framework.Session) {
	ssn.AddPreBindFn("witness", func(*api.TaskInfo, string) error { p.began.Add(1); return nil })
}

func witnessSpec(began *atomic.Int32) framework.PluginSpec {
	return framework.PluginSpec{Name: "witness", Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
		return witness{began}, nil
	})}
}

// TestAGangThatBackfillCannotComplete checks that a gang that backfill cannot complete waits and reports the reason
// that excludes the member without requests. It reserves nothing, runs no pre-bind step, and is placed by the first
// cycle in which that member fits.
func TestAGangThatBackfillCannotComplete(t *testing.T) {
	const nodes = "1 node didn't match Pod's node affinity/selector"
	minimum := func(n int32) *schedtest.PodGroupBuilder { return schedtest.MakePodGroup().Name("g").MinMember(n) }
	gpus := func(i int) *schedtest.PodBuilder { return members(i+1, "8")[i] }
	bare := func(i int) *schedtest.PodBuilder { return pod(i).Req(nil) }
	label := func(w *harness) { w.add(nodeOf8(0).Label("disk", "ssd").Obj(), nodeOf8(1).Obj()) }
	tests := map[string]struct {
		group *schedtest.PodGroupBuilder
		pods  []*schedtest.PodBuilder
		want  string
		mend  func(w *harness)
		bound int
	}{
		"no node has the label it wants": {
			group: minimum(2), pods: []*schedtest.PodBuilder{gpus(0), bare(1).NodeSelector("disk", "ssd")},
			want: "NotEnoughResources: best-effort pod p1 fits on no node: " + nodes, mend: label, bound: 2,
		},
		"it is the only one of its role": {
			group: minimum(1).MinTaskMember("launcher", 1), bound: 2, mend: label,
			pods: []*schedtest.PodBuilder{gpus(0).Role("worker"), bare(1).Role("launcher").NodeSelector("disk", "ssd")},
			want: "NotEnoughResources: best-effort pod p1 fits on no node: " + nodes,
		},
		"it has a scheduling gate": {
			group: minimum(2), pods: []*schedtest.PodBuilder{gpus(0), bare(1).Gate("example.com/quota")}, bound: 2,
			want: "SchedulingGated: 1 of 2 pods waits for scheduling gates: example.com/quota; minMember is 2",
			mend: func(w *harness) {
				free := w.cluster.Pod("p1").DeepCopy()
				free.Spec.SchedulingGates = nil
				w.add(free, nodeOf8(1).Obj())
			},
		},
		"others of it would do, and have no room": {
			group: minimum(2), pods: []*schedtest.PodBuilder{gpus(0), gpus(1), bare(2).NodeSelector("disk", "ssd")}, bound: 2,
			want: "NotEnoughResources: best-effort pod p2 fits on no node: " + nodes,
			mend: func(w *harness) { w.add(nodeOf8(1).Obj(), nodeOf8(2).Obj()) },
		},
		"none of it asks for resources": {
			group: minimum(2), pods: []*schedtest.PodBuilder{bare(0), bare(1).NodeSelector("disk", "ssd")}, bound: 2, mend: label,
			want: "NotEnoughResources: 0/1 nodes are unavailable: 1 node(s) didn't match Pod's node affinity/selector.",
		},
		"none of it asks for resources, and one has a gate": {
			group: minimum(2), pods: []*schedtest.PodBuilder{bare(0), bare(1).Gate("example.com/quota")}, bound: 2,
			want: "SchedulingGated: 1 of 2 pods waits for scheduling gates: example.com/quota; minMember is 2",
			mend: func(w *harness) {
				free := w.cluster.Pod("p1").DeepCopy()
				free.Spec.SchedulingGates = nil
				w.add(free)
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				var began atomic.Int32
				w.add(nodeOf8(0).Obj(), tt.group.Obj())
				for _, pod := range tt.pods {
					w.add(pod.Obj())
				}
				s := newSessions(w, explainConf("witness"), witnessSpec(&began))
				for range 20 {
					s.cycle()
				}
				if began.Load() != 0 || w.cache.books.Pods.Held() != 0 {
					t.Errorf("%d pre-bind steps began, and %d pods hold resources", began.Load(), w.cache.books.Pods.Held())
				}
				if diff := cmp.Diff("Unschedulable "+tt.want, s.says()); diff != "" {
					t.Errorf("condition of the PodGroup (-want +got):\n%s", diff)
				}
				_, message, _ := strings.Cut(tt.want, ": ")
				for _, p := range tt.pods {
					if pod := p.Obj(); len(pod.Spec.SchedulingGates) == 0 {
						if diff := cmp.Diff(v1.PodReasonUnschedulable+": "+message, s.podSays(pod.Name)); diff != "" {
							t.Errorf("condition of pod %s (-want +got):\n%s", pod.Name, diff)
						}
					}
				}
				w.add(schedtest.MakePodGroup().Name("later").MinMember(1).Obj(),
					schedtest.MakePod().Name("later").Group("later").Req(schedtest.Resources{"cpu": "1", "nvidia.com/gpu": "8"}).Obj())
				s.cycle()
				if w.cluster.Pod("later").Spec.NodeName == "" {
					t.Error("a gang that fits is not placed because of a gang that does not fit")
				}
				w.sync("later")
				tt.mend(w)
				s.cycle()
				bound := 0
				for i := range tt.pods {
					if w.cluster.Pod(fmt.Sprintf("p%d", i)).Spec.NodeName != "" {
						bound++
					}
				}
				if bound != tt.bound {
					t.Errorf("%d members are bound by the cycle after the member fits, want %d", bound, tt.bound)
				}
			})
		})
	}
}

// TestGangWithMembersInFlightIsNotIncomplete checks that members in flight count for the minimum of a gang: further
// members reach it together with members that are about to be bound.
func TestGangWithMembersInFlightIsNotIncomplete(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(3, 2)
		goOn := make(chan struct{})
		w.mustPlace("n", []binding.Step{waiting("slow", goOn)}, "p0", "p1")
		w.cache.SealTransactions()
		synctest.Wait()
		w.mustPlace("n", nil, "p2")
		if released := w.cache.ReleaseIncomplete(); len(released) > 0 {
			t.Errorf("given up: %v, want none while others of the gang are being bound", released)
		}
		w.cache.SealTransactions()
		close(goOn)
		synctest.Wait()
		if diff := cmp.Diff([]string{"n", "n", "n"}, nodesOf(w.cluster, "p0", "p1", "p2")); diff != "" {
			t.Errorf("nodes of the members (-want +got):\n%s", diff)
		}
	})
}
