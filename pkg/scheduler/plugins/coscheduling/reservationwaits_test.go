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
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestTheWaitOfAnotherGangOfTheNameDoesNotCount: of a PodGroup that was made again, and of a gang whose members were lost.
func TestTheWaitOfAnotherGangOfTheNameDoesNotCount(t *testing.T) {
	for name, again := range map[string]func(w *world){
		"a PodGroup is made again": func(w *world) {
			w.full()
			w.arrives("big", schedtest.Queue, 2, "4")
			w.pass(4*time.Minute, time.Minute)
			group := schedtest.MakePodGroup().Name("big").MinMember(2).Obj()
			w.cluster.Cache().DeletePodGroupV1beta1(group)
			group.UID = "another"
			w.cluster.Cache().AddPodGroupV1beta1(group)
		},
		"members that ran are lost": func(w *world) {
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
			in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *world) {
				again(w)
				w.session()
				w.pass(4*time.Minute, time.Minute)
				if len(w.reserved()) > 0 {
					t.Fatalf("reserved are %v before it has waited for 5 minutes", w.reserved())
				}
				w.untilReserved("big")
			})
		})
	}
}

// TestAForgedConditionOfAGangThatWaitsIsRemoved: it reports a reservation that does not exist.
func TestAForgedConditionOfAGangThatWaitsIsRemoved(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *world) {
		w.full()
		w.arrives("big", schedtest.Queue, 2, "4")
		w.session()
		w.job("big").PodGroup.Status.Conditions = []scheduling.PodGroupCondition{{Type: Reserved, Status: v1.ConditionTrue, Reason: nodesReserved}}
		w.session()
		if got := w.condition("big", Reserved); got.Type != "" {
			t.Errorf("its condition is %s", got.Reason)
		}
	})
}

// TestNodesThatDrainLateAreHeld for as long as others: the time to drain is over then.
func TestNodesThatDrainLateAreHeld(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *world) {
		w.full()
		w.arrives("big", schedtest.Queue, 2, "4")
		w.untilReserved("big")
		w.pass(28*time.Minute, time.Minute)
		w.remove("full-0")
		w.remove("full-1")
		w.add(schedtest.MakePod().Name("other").Scheduler("other").Node("n0").Phase(v1.PodRunning).Req(cores("4")).Obj())
		w.pass(4*time.Minute, time.Minute)
		if len(w.reserved()) != 2 {
			t.Fatalf("reserved are %v 3 minutes after they have drained, want 2: %s", w.reserved(), w.condition("big", Reserved).Message)
		}
		w.pass(2*time.Minute, time.Minute)
		if got := w.condition("big", Reserved).Message; len(w.reserved()) > 0 || !strings.Contains(got, "idle for 5m0s") {
			t.Errorf("reserved are %v: %s", w.reserved(), got)
		}
	})
}

// TestPausesOfReservations: a namespace's holds for all queues, and a gang that is placed on reserved nodes ends both.
func TestPausesOfReservations(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *world) {
		w.full()
		w.arrives("big", schedtest.Queue, 2, "4")
		until := time.Now().Add(20 * time.Minute)
		w.plugin.reservations.pauses["namespace/"+schedtest.Namespace] = &pause{length: time.Hour, until: until}
		w.pass(19*time.Minute, time.Minute)
		if len(w.reserved()) > 0 {
			t.Fatalf("reserved are %v while its namespace pauses", w.reserved())
		}
		w.untilReserved("big")
		w.remove("full-0")
		w.remove("full-1")
		w.pass(2*time.Minute, time.Minute)
		if !w.runs("big") || len(w.plugin.reservations.pauses) > 0 {
			t.Errorf("it runs: %t, and %d pauses are known, want none", w.runs("big"), len(w.plugin.reservations.pauses))
		}
	})
}

// TestTheEmptiestPlaceIsReserved: by how full its nodes are, and not by how many it has.
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
	in(t, given, conf, func(t *testing.T, w *world) {
		w.stays("half", schedtest.Queue, "n0", "2")
		for i := range 4 {
			w.stays(fmt.Sprintf("quarter-%d", i), schedtest.Queue, fmt.Sprintf("n%d", i+1), "1")
		}
		w.cluster.Cache().AddPodGroupV1beta1(schedtest.MakePodGroup().Name("big").MinMember(1).Annotation(ibcluster.ModeAnnotation, "required").Obj())
		w.add(members(schedtest.MakePod().Req(cores("4")), "big", 1)...)
		w.untilReserved("big")
		if got := strings.Join(w.reserved(), " "); got != "n1" {
			t.Errorf("reserved is %s, want a node of those that are a quarter full", got)
		}
	})
}

// TestATrialLeavesPodsAsTheyWere: also a pod that is being deleted, which counts as room to come, and one that is bound and does not run yet.
func TestATrialLeavesPodsAsTheyWere(t *testing.T) {
	for status, change := range map[api.TaskStatus]func(*v1.Pod){
		api.Releasing: func(pod *v1.Pod) { pod.DeletionTimestamp = &schedtest.Created },
		api.Bound:     func(pod *v1.Pod) { pod.Status.Phase = v1.PodPending },
	} {
		t.Run(status.String(), func(t *testing.T) {
			in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *world) {
				w.full()
				for i := range 4 {
					w.update(fmt.Sprint("full-", i), change)
				}
				w.arrives("big", schedtest.Queue, 3, "4") // beyond the share
				trials := 0
				for range 8 {
					time.Sleep(time.Minute)
					w.session(func(ssn *sessiontest.Session) {
						if c := conditionOf(ssn.Jobs["ns/big"].PodGroup, Reserved); c != nil {
							trials++
						}
						for i := range 4 {
							if n := len(ssn.Jobs[api.JobID(fmt.Sprint("ns/full-", i))].TaskStatusIndex[status]); n != 1 {
								t.Fatalf("of the pod on node %d, which is %s, %d are", i, status, n)
							}
						}
					})
				}
				if trials == 0 {
					t.Fatal("no trial was made")
				}
			})
		})
	}
}

// TestTheLargestMembersThatTheMinimumNeedsHaveNodes: the smallest would not do for others.
func TestTheLargestMembersThatTheMinimumNeedsHaveNodes(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *world) {
		w.full()
		w.cluster.Cache().AddPodGroupV1beta1(schedtest.MakePodGroup().Name("big").MinMember(2).Obj())
		for i, cpu := range []string{"1", "4", "1", "4"} {
			w.add(schedtest.MakePod().Name(fmt.Sprint("big-", i)).Group("big").Req(cores(cpu)).Obj())
		}
		w.untilReserved("big")
		if len(w.reserved()) != 2 {
			t.Errorf("reserved are %v, want two nodes", w.reserved())
		}
	})
}

// TestOnePodOfAHighPriorityDoesNotCloseReservedNodes: the lowest of the gang's counts.
func TestOnePodOfAHighPriorityDoesNotCloseReservedNodes(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *world) {
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
			t.Errorf("a pod of a priority between theirs does not run: %s", w.condition("new", "Unschedulable").Message)
		}
	})
}

// TestAGangWithReservedNodesThatRequestsMoreIsNotAdmitted: its queue has not been asked about that.
func TestAGangWithReservedNodesThatRequestsMoreIsNotAdmitted(t *testing.T) {
	conf := strings.Replace(after5m(50), "  - name: proportion\n", "  - name: proportion\n  - name: overcommit\n    arguments: {overcommit-factor: 1.0}\n", 1)
	in(t, nodes(4, "4"), conf, func(t *testing.T, w *world) {
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
			t.Errorf("with more minResources it is %s", w.phase("big"))
		}
	})
}

// TestPodsThatLeaveFreeNothingOfAShare: what they hold does not count in it any longer.
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
			in(t, given, hierarchy, func(t *testing.T, w *world) {
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
					t.Errorf("reserved are %v, want %d: %s", w.reserved(), c.want, w.condition("big", Reserved).Message)
				}
			})
		})
	}
}

// TestAQueueTakesOthersBesideAGangThatIsPlaced: in the session in which the gang leaves its reservation for its nodes.
func TestAQueueTakesOthersBesideAGangThatIsPlaced(t *testing.T) {
	given := nodes(4, "4")
	given.Queues = []*v1beta1.Queue{schedtest.MakeQueue().Name("q").Capability(cores("12")).Weight(100).Obj()}
	in(t, given, after5m(50), func(t *testing.T, w *world) {
		w.full()
		w.arrives("big", "q", 2, "4")
		w.untilReserved("big")
		for i := range 3 {
			w.remove(fmt.Sprint("full-", i))
		}
		w.arrives("new", "q", 1, "4")
		if w.session(); !w.runs("big") || !w.runs("new") {
			t.Errorf("the gang runs: %t, and the other one: %t (%s)", w.runs("big"), w.runs("new"), w.condition("new", "Unschedulable").Message)
		}
	})
}

// TestAQueueTakesOthersBesideAGangThatWaitsForItsLastNode: a pod still ends on one of the reserved nodes. The queue counts both members already.
func TestAQueueTakesOthersBesideAGangThatWaitsForItsLastNode(t *testing.T) {
	given := nodes(4, "4")
	given.Nodes[0].Labels, given.Nodes[1].Labels = map[string]string{"for": "big"}, map[string]string{"for": "big"}
	given.Queues = []*v1beta1.Queue{schedtest.MakeQueue().Name("q").Capability(cores("12")).Weight(100).Obj()}
	in(t, given, after5m(50), func(t *testing.T, w *world) {
		w.full()
		w.arrives("big", "q", 2, "4", func(pod *v1.Pod) { pod.Spec.NodeSelector = map[string]string{"for": "big"} })
		w.untilReserved("big")
		w.remove("full-0")
		w.remove("full-2")
		w.update("full-1", func(pod *v1.Pod) { pod.DeletionTimestamp = &schedtest.Created })
		w.arrives("new", "q", 1, "4")
		w.session(func(ssn *sessiontest.Session) {
			if job := ssn.Jobs["ns/big"]; len(job.TaskStatusIndex[api.Allocated]) != 1 || len(job.TaskStatusIndex[api.Pipelined]) != 1 {
				t.Errorf("the members of the gang are %v, want one that waits for its node", job.TaskStatusIndex)
			}
		})
		if !w.runs("new") {
			t.Errorf("the other gang waits: %s", w.condition("new", "Unschedulable").Message)
		}
	})
}

// TestATimeLimitEndsWithThePlacement, also for gangs that are never satisfied: the condition goes, and the next wait begins again.
func TestATimeLimitEndsWithThePlacement(t *testing.T) {
	blocker := schedtest.MakePod().Name("blocker").Scheduler("other").Node("n1").Phase(v1.PodRunning).Req(cores("5")).Obj()
	group := waits("a").Annotation(gangs.MatchPolicyAnnotation, string(gangs.WaitingAndRunning))
	in(t, narrow([]*schedtest.PodGroupBuilder{group}, append(members(small(), "a", 4), blocker)...), limits, func(t *testing.T, w *world) {
		w.pass(50*time.Second, 10*time.Second)
		if got := w.condition("a", TimeLimit).Reason; got != gangAdmitted {
			t.Fatalf("its condition is %q before it is placed", got)
		}
		w.remove("blocker")
		w.pass(20*time.Second, 10*time.Second)
		if got := w.condition("a", TimeLimit); !w.runs("a") || got.Type != "" || len(w.plugin.limits) > 0 {
			t.Errorf("it runs: %t, and its condition is %s: %s, want none", w.runs("a"), got.Reason, got.Message)
		}
	})
}

// TestAGangWithoutMinResourcesStaysBack: enqueue lets it in without asking a plugin.
func TestAGangWithoutMinResourcesStaysBack(t *testing.T) {
	group := schedtest.MakePodGroup().Name("a").MinMember(4).Phase(v1beta1.PodGroupPending).Annotation(gangs.WaitingTimeAnnotation, "60s")
	in(t, narrow([]*schedtest.PodGroupBuilder{group}, members(small(), "a", 3)...), limits, func(t *testing.T, w *world) {
		w.pass(62*time.Second, time.Second)
		for i := range 5 {
			if got := w.condition("a", TimeLimit).Reason; w.phase("a") != scheduling.PodGroupPending || got != timedOut {
				t.Errorf("%d s after it was sent back it is %s, and its condition says %q", i, w.phase("a"), got)
			}
			w.pass(time.Second, time.Second)
		}
	})
}
