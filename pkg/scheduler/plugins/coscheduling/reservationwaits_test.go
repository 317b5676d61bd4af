// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestTheWaitOfAnotherGangOfTheNameDoesNotCount: the wait starts again if the PodGroup was recreated, or if all members
// of a running gang were lost.
func TestTheWaitOfAnotherGangOfTheNameDoesNotCount(t *testing.T) {
	for name, again := range map[string]func(w *simulation){
		"a PodGroup is made again": func(w *simulation) {
			w.full()
			w.arrives("big", schedtest.Queue, 2, "4")
			w.pass(4*time.Minute, time.Minute)
			group := schedtest.MakePodGroup().Name("big").MinMember(2).Obj()
			w.cluster.Cache().DeletePodGroupV1beta1(group)
			group.UID = "another"
			w.cluster.Cache().AddPodGroupV1beta1(group)
		},
		"members that ran are lost": func(w *simulation) {
			w.arrives("big", schedtest.Queue, 2, "4")
			w.pass(10*time.Minute, time.Minute)
			for i := range 2 {
				w.remove(fmt.Sprint("big-", i))
			}
			w.full()
			w.add(members(schedtest.MakePod().Req(cores("4")), "big", 2)...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
				again(w)
				w.session()
				w.pass(4*time.Minute, time.Minute)
				if len(w.reserved()) > 0 {
					t.Fatalf("the reserved nodes are %v before the gang has waited for 5 minutes", w.reserved())
				}
				w.untilReserved("big")
			})
		})
	}
}

// TestAForgedConditionOfAGangThatWaitsIsRemoved checks that a condition about a reservation that does not exist is
// removed.
func TestAForgedConditionOfAGangThatWaitsIsRemoved(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
		w.full()
		w.arrives("big", schedtest.Queue, 2, "4")
		w.session()
		w.job("big").PodGroup.Status.Conditions = []scheduling.PodGroupCondition{{Type: Reserved, Status: v1.ConditionTrue, Reason: nodesReserved}}
		w.session()
		if got := w.condition("big", Reserved); got.Type != "" {
			t.Errorf("the gang still has a condition with reason %s", got.Reason)
		}
	})
}

// TestNodesThatDrainLateAreHeld checks that nodes which drain shortly before drainTimeout are held as long as others,
// although drainTimeout passes meanwhile.
func TestNodesThatDrainLateAreHeld(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
		w.full()
		w.arrives("big", schedtest.Queue, 2, "4")
		w.untilReserved("big")
		w.pass(28*time.Minute, time.Minute)
		w.remove("full-0")
		w.remove("full-1")
		w.add(schedtest.MakePod().Name("other").Scheduler("other").Node("n0").Phase(v1.PodRunning).Req(cores("4")).Obj())
		w.pass(4*time.Minute, time.Minute)
		if len(w.reserved()) != 2 {
			t.Fatalf("the reserved nodes are %v 3 minutes after they have drained, want 2: %s", w.reserved(), w.condition("big", Reserved).Message)
		}
		w.pass(2*time.Minute, time.Minute)
		if got := w.condition("big", Reserved).Message; len(w.reserved()) > 0 || !strings.Contains(got, "idle for 5m0s") {
			t.Errorf("the reserved nodes are %v: %s", w.reserved(), got)
		}
	})
}

// TestPausesOfReservations: the pause of a namespace applies to all queues. When a gang is placed on its reserved
// nodes, the pauses of its queue and namespace end.
func TestPausesOfReservations(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
		w.full()
		w.arrives("big", schedtest.Queue, 2, "4")
		until := time.Now().Add(20 * time.Minute)
		w.plugin.reservations.pauses["namespace/"+schedtest.Namespace] = &pause{length: time.Hour, until: until}
		w.pass(19*time.Minute, time.Minute)
		if len(w.reserved()) > 0 {
			t.Fatalf("the reserved nodes are %v during the pause of the namespace", w.reserved())
		}
		w.untilReserved("big")
		w.remove("full-0")
		w.remove("full-1")
		w.pass(2*time.Minute, time.Minute)
		if !w.runs("big") || len(w.plugin.reservations.pauses) > 0 {
			t.Errorf("the gang runs: %t, and %d pauses exist, want none", w.runs("big"), len(w.plugin.reservations.pauses))
		}
	})
}

// TestTheEmptiestPlaceIsReserved checks that the node group with the emptiest nodes is chosen, not the one with the
// most or fewest nodes.
func TestTheEmptiestPlaceIsReserved(t *testing.T) {
	given := sessiontest.ClusterSpec{}
	for i := range 5 {
		group := "large"
		if i == 0 {
			group = "alone"
		}
		given.Nodes = append(given.Nodes, holds("4").Name(fmt.Sprintf("n%d", i)).Label("group", group).Obj())
	}
	conf := after5m(100) + "  - name: ibcluster\n    arguments: {ibcluster.levels: [group]}\n"
	in(t, given, conf, func(t *testing.T, w *simulation) {
		w.stays("half", schedtest.Queue, "n0", "2")
		for i := range 4 {
			w.stays(fmt.Sprintf("quarter-%d", i), schedtest.Queue, fmt.Sprintf("n%d", i+1), "1")
		}
		w.cluster.Cache().AddPodGroupV1beta1(schedtest.MakePodGroup().Name("big").MinMember(1).Annotation(ibcluster.ModeAnnotation, "required").Obj())
		w.add(members(schedtest.MakePod().Req(cores("4")), "big", 1)...)
		w.untilReserved("big")
		if got := strings.Join(w.reserved(), " "); got != "n1" {
			t.Errorf("the reserved node is %s, want n1, which is a quarter full", got)
		}
	})
}

// TestATrialLeavesPodsAsTheyWere checks that a trial does not change the state of pods: pods that are being deleted,
// whose resources count as released, and pods that are bound but do not run yet.
func TestATrialLeavesPodsAsTheyWere(t *testing.T) {
	for status, change := range map[api.TaskStatus]func(*v1.Pod){
		api.Releasing: func(pod *v1.Pod) { pod.DeletionTimestamp = &schedtest.Created },
		api.Bound:     func(pod *v1.Pod) { pod.Status.Phase = v1.PodPending },
	} {
		t.Run(status.String(), func(t *testing.T) {
			in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
				w.full()
				for i := range 4 {
					w.update(fmt.Sprint("full-", i), change)
				}
				w.arrives("big", schedtest.Queue, 3, "4") // more nodes than reservedPercent permits
				trials := 0
				for range 8 {
					time.Sleep(time.Minute)
					w.session(func(ssn *sessiontest.Session) {
						if c := conditions.Find(&ssn.Jobs["ns/big"].PodGroup.Status, Reserved); c != nil {
							trials++
						}
						for i := range 4 {
							if n := len(ssn.Jobs[api.JobID(fmt.Sprint("ns/full-", i))].TaskStatusIndex[status]); n != 1 {
								t.Fatalf("the number of pods on node %d with status %s is %d, want 1", i, status, n)
							}
						}
					})
				}
				if trials == 0 {
					t.Fatal("no trial took place")
				}
			})
		})
	}
}

// TestTheLargestMembersThatTheMinimumNeedsHaveNodes checks that nodes are reserved for the gang's largest members, as
// many as the minimum needs. Nodes for the smallest members would not suffice for the others.
func TestTheLargestMembersThatTheMinimumNeedsHaveNodes(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
		w.full()
		w.cluster.Cache().AddPodGroupV1beta1(schedtest.MakePodGroup().Name("big").MinMember(2).Obj())
		for i, cpu := range []string{"1", "4", "1", "4"} {
			w.add(schedtest.MakePod().Name(fmt.Sprint("big-", i)).Group("big").Req(cores(cpu)).Obj())
		}
		w.untilReserved("big")
		if len(w.reserved()) != 2 {
			t.Errorf("the reserved nodes are %v, want two nodes", w.reserved())
		}
	})
}

// TestOnePodOfAHighPriorityDoesNotCloseReservedNodes: the pods of a gang have different priorities. Its reservation has
// the lowest of them, so a pod with a priority in between may use the nodes.
func TestOnePodOfAHighPriorityDoesNotCloseReservedNodes(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
		w.full()
		highest, between := int32(1000), int32(500)
		w.arrives("big", schedtest.Queue, 2, "4", func(pod *v1.Pod) {
			if pod.Name == "big-0" {
				pod.Spec.Priority = &highest
			}
		})
		w.untilReserved("big")
		w.remove("full-0")
		w.arrives("new", schedtest.Queue, 1, "1", func(pod *v1.Pod) { pod.Spec.Priority = &between })
		if w.session(); !w.runs("new") {
			t.Errorf("a pod with a priority between those of the gang's pods does not run: %s", w.condition("new", "Unschedulable").Message)
		}
	})
}

// TestAGangWithReservedNodesThatRequestsMoreIsNotAdmitted checks that a reservation does not admit its gang after the
// gang's minResources were raised. No plugin has checked whether the queue can hold the raised amount.
func TestAGangWithReservedNodesThatRequestsMoreIsNotAdmitted(t *testing.T) {
	conf := strings.Replace(after5m(50), "  - name: proportion\n", "  - name: proportion\n  - name: overcommit\n    arguments: {overcommit-factor: 1.0}\n", 1)
	in(t, nodes(4, "4"), conf, func(t *testing.T, w *simulation) {
		w.full()
		group := func(cpu string) *v1beta1.PodGroup {
			return schedtest.MakePodGroup().Name("big").MinMember(2).MinResources(cores(cpu)).Phase(v1beta1.PodGroupPending).Obj()
		}
		w.cluster.Cache().AddPodGroupV1beta1(group("8"))
		w.add(members(schedtest.MakePod().Req(cores("4")), "big", 2)...)
		w.untilReserved("big")
		w.change(group("9"))
		w.session()
		if w.phase("big") != scheduling.PodGroupPending {
			t.Errorf("with more minResources the gang is %s, want Pending", w.phase("big"))
		}
	})
}

// TestPodsThatLeaveFreeNothingOfAShare: pods of the queue on the reserved nodes are terminating, so they no longer
// count against the queue's share. Their end therefore frees nothing of the share, which must hold all reserved nodes.
func TestPodsThatLeaveFreeNothingOfAShare(t *testing.T) {
	hierarchy := strings.Replace(strings.Replace(after5m(50), "name: proportion", "name: capacity\n    enableHierarchy: true", 1), "  - name: priority\n", "", 1)
	for name, c := range map[string]struct {
		deserved string
		want     int
	}{"a share of both nodes": {"8", 2}, "a share of less": {"7", 0}} {
		t.Run(name, func(t *testing.T) {
			given := nodes(4, "4")
			q := schedtest.MakeQueue().Name("q").Weight(100).Obj()
			q.Spec.Parent, q.Spec.Deserved = "root", v1.ResourceList{v1.ResourceCPU: *cpus(c.deserved)}
			given.Queues = []*v1beta1.Queue{schedtest.MakeQueue().Name("root").Weight(100).Obj(), q}
			in(t, given, hierarchy, func(t *testing.T, w *simulation) {
				for i := range 4 {
					queue := schedtest.Queue
					if i < 2 {
						queue = "q"
					}
					w.stays(fmt.Sprintf("full-%d", i), queue, fmt.Sprintf("n%d", i), "4")
				}
				for i := range 2 {
					w.update(fmt.Sprint("full-", i), func(pod *v1.Pod) { pod.DeletionTimestamp = &schedtest.Created })
				}
				w.arrives("big", "q", 2, "4")
				w.pass(10*time.Minute, time.Minute)
				if len(w.reserved()) != c.want {
					t.Errorf("the reserved nodes are %v, want %d: %s", w.reserved(), c.want, w.condition("big", Reserved).Message)
				}
			})
		})
	}
}

// TestAQueueTakesOthersBesideAGangThatIsPlaced: in the session that places the gang on its reserved nodes, the queue
// does not count the gang twice.
func TestAQueueTakesOthersBesideAGangThatIsPlaced(t *testing.T) {
	given := nodes(4, "4")
	given.Queues = []*v1beta1.Queue{schedtest.MakeQueue().Name("q").Capability(cores("12")).Weight(100).Obj()}
	in(t, given, after5m(50), func(t *testing.T, w *simulation) {
		w.full()
		w.arrives("big", "q", 2, "4")
		w.untilReserved("big")
		for i := range 3 {
			w.remove(fmt.Sprint("full-", i))
		}
		w.arrives("new", "q", 1, "4")
		if w.session(); !w.runs("big") || !w.runs("new") {
			t.Errorf("the gang runs: %t, the other gang runs: %t (%s)", w.runs("big"), w.runs("new"), w.condition("new", "Unschedulable").Message)
		}
	})
}

// TestAQueueTakesOthersBesideAGangThatWaitsForItsLastNode: a pod still terminates on one of the reserved nodes, and one
// member is pipelined there. The queue does not count the two members twice.
func TestAQueueTakesOthersBesideAGangThatWaitsForItsLastNode(t *testing.T) {
	given := nodes(4, "4")
	given.Nodes[0].Labels, given.Nodes[1].Labels = map[string]string{"for": "big"}, map[string]string{"for": "big"}
	given.Queues = []*v1beta1.Queue{schedtest.MakeQueue().Name("q").Capability(cores("12")).Weight(100).Obj()}
	in(t, given, after5m(50), func(t *testing.T, w *simulation) {
		w.full()
		w.arrives("big", "q", 2, "4", func(pod *v1.Pod) { pod.Spec.NodeSelector = map[string]string{"for": "big"} })
		w.untilReserved("big")
		w.remove("full-0")
		w.remove("full-2")
		w.update("full-1", func(pod *v1.Pod) { pod.DeletionTimestamp = &schedtest.Created })
		w.arrives("new", "q", 1, "4")
		w.session(func(ssn *sessiontest.Session) {
			if job := ssn.Jobs["ns/big"]; len(job.TaskStatusIndex[api.Allocated]) != 1 || len(job.TaskStatusIndex[api.Pipelined]) != 1 {
				t.Errorf("the members of the gang are %v, want one allocated and one pipelined", job.TaskStatusIndex)
			}
		})
		if !w.runs("new") {
			t.Errorf("the other gang waits: %s", w.condition("new", "Unschedulable").Message)
		}
	})
}

// TestATimeLimitEndsWithThePlacement checks that condition TimeLimit is removed when the gang is placed, and that the
// next wait begins at zero. This also holds for gangs that are never satisfied.
func TestATimeLimitEndsWithThePlacement(t *testing.T) {
	blocker := schedtest.MakePod().Name("blocker").Scheduler("other").Node("n1").Phase(v1.PodRunning).Req(cores("5")).Obj()
	group := waits("a").Annotation(gangs.MatchPolicyAnnotation, string(gangs.WaitingAndRunning))
	in(t, narrow([]*schedtest.PodGroupBuilder{group}, append(members(small(), "a", 4), blocker)...), limits, func(t *testing.T, w *simulation) {
		w.pass(50*time.Second, 10*time.Second)
		if got := w.condition("a", TimeLimit).Reason; got != gangAdmitted {
			t.Fatalf("before the placement the condition has reason %q", got)
		}
		w.remove("blocker")
		w.pass(20*time.Second, 10*time.Second)
		if got := w.condition("a", TimeLimit); !w.runs("a") || got.Type != "" || len(w.plugin.limits) > 0 {
			t.Errorf("the gang runs: %t, and its condition is %s: %s, want none", w.runs("a"), got.Reason, got.Message)
		}
	})
}

// TestAGangWithoutMinResourcesStaysBack: enqueue admits gangs without minResources without calling plugins. A gang in a
// backoff must stay in phase Pending nevertheless.
func TestAGangWithoutMinResourcesStaysBack(t *testing.T) {
	group := schedtest.MakePodGroup().Name("a").MinMember(4).Phase(v1beta1.PodGroupPending).Annotation(gangs.WaitingTimeAnnotation, "60s")
	in(t, narrow([]*schedtest.PodGroupBuilder{group}, members(small(), "a", 3)...), limits, func(t *testing.T, w *simulation) {
		w.pass(62*time.Second, time.Second)
		for i := range 5 {
			if got := w.condition("a", TimeLimit).Reason; w.phase("a") != scheduling.PodGroupPending || got != timedOut {
				t.Errorf("%d s after its timeout the gang is %s, and its condition has reason %q", i, w.phase("a"), got)
			}
			w.pass(time.Second, time.Second)
		}
	})
}
