// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/preempt"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/evictionbackoff"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// noTime and someTime are values for SetAttemptTime. noTime is a debt that no test is long enough to repay. someTime is
// more than the attempts of a test take.
const noTime, someTime = -20 * time.Second, 500 * time.Millisecond

// newShared adds gang other/y, which fits, to a cluster with gangs in namespace ns. It returns sessions of this
// cluster, and the action that they run.
func newShared(t *testing.T, w sessiontest.ClusterSpec) (*counting, *allocate.Action) {
	pods, podGroup := gang("y", "1")
	podGroup.Namespace, pods[0].Namespace, pods[0].UID = "other", "other", types.UID("other-y")
	w.Pods, w.PodGroups = append(w.Pods, pods...), append(w.PodGroups, podGroup)
	c := newGroup(t, nil, nil)
	c.world = w
	action := allocate.New(allocate.WithAttemptLimit())
	c.registry.RegisterAction(action)
	c.action, _ = vcframework.GetAction("allocate")
	return c, action
}

// messagesOf returns the messages of the job's pods by their names, and the message of the job with an empty name.
func messagesOf(job *api.JobInfo) map[string]string {
	messages := map[string]string{"": job.JobFitErrors}
	for uid, errs := range job.NodesFitErrors {
		messages[job.Tasks[uid].Name] = errs.Error()
	}
	return messages
}

// TestANamespaceOverItsLimitWaits checks that a gang is not tried while its namespace has used up the time for failed
// attempts. Another namespace's gang is bound in each session.
func TestANamespaceOverItsLimitWaits(t *testing.T) {
	pods, podGroup := gang("x", "1")
	c, action := newShared(t, sessiontest.ClusterSpec{Nodes: []*v1.Node{node("n1", "ib-a", "8")}, Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}})
	action.SetAttemptTime(schedtest.Namespace, noTime)
	want := []map[string]string{{"other/y-0": "n1"}, {"ns/x-0": "n1", "other/y-0": "n1"}, {"ns/x-0": "n1", "other/y-0": "n1"}}
	for i, want := range want {
		c.look(func(ssn *sessiontest.Session) {
			if diff := cmp.Diff(want, ssn.Binds()); diff != "" {
				t.Errorf("bound in session %d (-want +got):\n%s", i, diff)
			}
			said := "not tried in this cycle: gangs of namespace ns that fit nowhere have used up the namespace's time for failed attempts; it has its turn in a later cycle"
			if got := ssn.Jobs["ns/x"].JobFitErrors; i == 0 && got != said {
				t.Errorf("in session %d, the gang said %q, want %q", i, got, said)
			}
		})
		action.SetAttemptTime(schedtest.Namespace, someTime)
	}
}

// TestAGangThatIsNotTriedKeepsItsReason checks that a gang without a turn reports why it did not fit when it was tried,
// although the cluster has changed, and that it is placed when it is tried again.
func TestAGangThatIsNotTriedKeepsItsReason(t *testing.T) {
	tests := map[string]func(podGroups []*v1beta1.PodGroup){
		"a gang": func([]*v1beta1.PodGroup) {},
		"a gang that needs one InfiniBand cluster": func(podGroups []*v1beta1.PodGroup) {
			podGroups[0].Annotations = map[string]string{ibcluster.ModeAnnotation: "required"}
		},
		"a gang group": func(podGroups []*v1beta1.PodGroup) {
			for _, podGroup := range podGroups {
				podGroup.Annotations = map[string]string{gangs.GroupsAnnotation: `["ns/x","ns/z"]`}
			}
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			large, podGroup := gang("x", "9", "9")
			small, second := gang("z", "1")
			podGroups := []*v1beta1.PodGroup{podGroup, second}
			change(podGroups)
			tainted := node("n1", "ib-a", "12")
			tainted.Spec.Taints = []v1.Taint{{Key: "maintenance", Effect: v1.TaintEffectNoSchedule}}
			c, action := newShared(t, sessiontest.ClusterSpec{Nodes: []*v1.Node{tainted}, Pods: append(large, small...), PodGroups: podGroups})
			var reports []map[string]string
			report := func(ssn *sessiontest.Session) { reports = append(reports, messagesOf(ssn.Jobs["ns/x"])) }
			c.look(report)
			action.SetAttemptTime(schedtest.Namespace, noTime)
			c.world.Nodes = append(c.world.Nodes, node("n2", "ib-a", "30"))
			c.look(report)
			if reports[0][""] == "" || reports[0]["x-0"] == "" {
				t.Fatalf("the first session reports %q", reports[0])
			}
			if name == "a gang group" { // messages of pods are not kept for gang groups
				delete(reports[0], "x-0")
			}
			if diff := cmp.Diff(reports[0], reports[1]); diff != "" {
				t.Errorf("reported without a turn (-first session +second session):\n%s", diff)
			}
			action.SetAttemptTime(schedtest.Namespace, someTime)
			c.look(func(ssn *sessiontest.Session) {
				if binds := ssn.Binds(); binds["ns/x-0"] == "" || binds["ns/x-1"] == "" {
					t.Errorf("with a second node, %v are bound", binds)
				}
			})
		})
	}
}

// TestAPlannedGangThatIsNotTriedKeepsTheMessagesOfItsPods checks that pods of a gang with topology plans keep their
// messages while the gang has no turn.
func TestAPlannedGangThatIsNotTriedKeepsTheMessagesOfItsPods(t *testing.T) {
	pods, podGroup := gang("x", "9", "9")
	c, action := newShared(t, sessiontest.ClusterSpec{Nodes: []*v1.Node{node("n1", "ib-a", "8")}, Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}})
	c.helped(nothing, sessiontest.TopologyPlannerFn(func(job *api.JobInfo) (*framework.TopologyPlanner, error) {
		if job.Name != "x" {
			return nil, nil
		}
		return &framework.TopologyPlanner{On: func(slots map[string]int, _ int) framework.TopologyPlans { return onBoth{slots} },
			Compare: func(*api.TaskInfo, *api.TaskInfo) int { return 0 }}, nil
	}))
	want := map[string]string{}
	c.look(func(ssn *sessiontest.Session) { want = messagesOf(ssn.Jobs["ns/x"]) })
	if len(want) != 3 {
		t.Fatalf("the first session reports %q, want messages of the gang and of two pods", want)
	}
	action.SetAttemptTime(schedtest.Namespace, noTime)
	c.look(func(ssn *sessiontest.Session) {
		if diff := cmp.Diff(want, messagesOf(ssn.Jobs["ns/x"])); diff != "" {
			t.Errorf("reported without a turn (-first session +second session):\n%s", diff)
		}
	})
}

// TestAGangThatIsCreatedAgainHasNoFormerReason checks that a gang without a turn does not report why an earlier gang with
// the same name did not fit.
func TestAGangThatIsCreatedAgainHasNoFormerReason(t *testing.T) {
	large, podGroup := gang("x", "9")
	c, action := newShared(t, sessiontest.ClusterSpec{Nodes: []*v1.Node{node("n1", "ib-a", "8")}, Pods: large, PodGroups: []*v1beta1.PodGroup{podGroup}})
	expect := func(want string) {
		t.Helper()
		c.look(func(ssn *sessiontest.Session) {
			if got, _ := ssn.PendingReason("ns/x"); got.Reason != want {
				t.Errorf("the reason is %q, want %q", got.Reason, want)
			}
		})
	}
	expect(framework.NotEnoughResources)
	small, podGroup := gang("x", "1")
	small[0].UID, podGroup.UID = "new-x-0", "new-x"
	c.world.Pods[0], c.world.PodGroups[0] = small[0], podGroup
	action.SetAttemptTime(schedtest.Namespace, noTime)
	expect(framework.NotTried)
}

// TestAJobThatIsPlacedFirstNeedsNoTurn checks that a job that a plugin places first is tried although failed attempts
// for other gangs of its namespace have used up their time.
func TestAJobThatIsPlacedFirstNeedsNoTurn(t *testing.T) {
	pods, podGroup := gang("x", "1")
	c, action := newShared(t, sessiontest.ClusterSpec{Nodes: []*v1.Node{node("n1", "ib-a", "1")}, Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}})
	c.helped(nothing, sessiontest.PlaceFirstFn(func(job *api.JobInfo) bool { return job.Name == "x" }))
	action.SetAttemptTime(schedtest.Namespace, noTime)
	c.look(func(ssn *sessiontest.Session) {
		if diff := cmp.Diff(map[string]string{"ns/x-0": "n1"}, ssn.Binds()); diff != "" {
			t.Errorf("bound (-want +got):\n%s", diff)
		}
	})
}

// TestJobsThatArePlacedFirstDoNotUseUpTheLimit checks that failed attempts for a job that a plugin places first do not
// use up the time of other jobs of its namespace. The job is tried in each session, so the others might otherwise never
// be tried.
func TestJobsThatArePlacedFirstDoNotUseUpTheLimit(t *testing.T) {
	for _, first := range []bool{true, false} {
		pods, podGroup := gang("x", "9")
		c, action := newShared(t, sessiontest.ClusterSpec{Nodes: []*v1.Node{node("n1", "ib-a", "8")}, Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}})
		c.helped(nothing, sessiontest.PlaceFirstFn(func(job *api.JobInfo) bool { return job.Name == "x" && first }))
		before := action.AttemptTime(schedtest.Namespace)
		c.look(func(*sessiontest.Session) {})
		if got := action.AttemptTime(schedtest.Namespace); (got == before) != first {
			t.Errorf("placed first: %t, the time left after the attempt is %s, before it %s", first, got, before)
		}
	}
}

// TestJobsThatCannotBePlacedAreNoCompetitors checks that a namespace with a small debt has time again at once if no
// other namespace has pods that can be placed. Gated pods do not count.
func TestJobsThatCannotBePlacedAreNoCompetitors(t *testing.T) {
	for gated, want := range map[bool]string{true: "n1", false: ""} {
		pods, podGroup := gang("x", "1")
		c, action := newShared(t, sessiontest.ClusterSpec{Nodes: []*v1.Node{node("n1", "ib-a", "8")}, Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}})
		for _, pod := range c.world.Pods {
			if gated && pod.Namespace == "other" {
				pod.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "later"}}
			}
		}
		action.SetAttemptTime(schedtest.Namespace, -someTime)
		c.look(func(ssn *sessiontest.Session) {
			if got := ssn.Binds()["ns/x-0"]; got != want {
				t.Errorf("with a gated pod in the other namespace: %t, the gang is bound to %q, want %q", gated, got, want)
			}
		})
	}
}

// TestAGroupThatIsNotTriedDoesNotRepeatAFormerState checks that a gang group without a turn does not report that one of
// its queues is full if that queue has room now.
func TestAGroupThatIsNotTriedDoesNotRepeatAFormerState(t *testing.T) {
	pods, podGroup := gang("x", "1")
	more, second := gang("z", "1")
	for _, podGroup := range []*v1beta1.PodGroup{podGroup, second} {
		podGroup.Annotations = map[string]string{gangs.GroupsAnnotation: `["ns/x","ns/z"]`}
	}
	second.Spec.Queue = "full"
	c, action := newShared(t, sessiontest.ClusterSpec{
		Nodes: []*v1.Node{node("n1", "ib-a", "8")}, Pods: append(pods, more...), PodGroups: []*v1beta1.PodGroup{podGroup, second},
		Queues: []*v1beta1.Queue{schedtest.MakeQueue().Name("full").Obj()},
	})
	full := true
	c.helped(func(ssn *framework.Session) {
		ssn.AddOverusedFn("helper", func(queue any) bool { return full && queue.(*api.QueueInfo).Name == "full" })
	})
	c.look(func(ssn *sessiontest.Session) {
		if got, want := ssn.Jobs["ns/x"].JobFitErrors, "queue full is at its limit"; !strings.Contains(got, want) {
			t.Fatalf("the first session reports %q, want %q in it", got, want)
		}
	})
	full = false
	action.SetAttemptTime(schedtest.Namespace, noTime)
	c.look(func(ssn *sessiontest.Session) {
		for _, gang := range []api.JobID{"ns/x", "ns/z"} {
			if got, _ := ssn.PendingReason(gang); got.Reason != framework.NotTried {
				t.Errorf("gang %s reports %q, want reason %s", gang, got, framework.NotTried)
			}
			if !ssn.Placements.IsUntried(gang) {
				t.Errorf("gang %s counts as tried", gang)
			}
		}
	})
}

// TestNoPodIsEvictedForAGangThatIsNotTried checks that action reclaim evicts pods for a gang that was tried and fits on no
// idle node, but not for a gang without a turn, which may fit once it is tried.
func TestNoPodIsEvictedForAGangThatIsNotTried(t *testing.T) {
	tests := map[string]struct {
		left time.Duration
		want int
	}{
		"a gang that was tried":     {left: someTime, want: 4},
		"a gang that was not tried": {left: noTime, want: 1}, // for gang other/y, to which the queue's share is left
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			lender, reclaimable := schedtest.MakeQueue().Name("lender").Obj(), true
			lender.Spec.Reclaimable = &reclaimable
			pods, podGroup := gang("x", "4")
			w := sessiontest.ClusterSpec{Nodes: []*v1.Node{node("n1", "ib-a", "8")}, Queues: []*v1beta1.Queue{lender}, Pods: pods, PodGroups: []*v1beta1.PodGroup{
				podGroup, schedtest.MakePodGroup().Name("low").Queue("lender").MinMember(0).Phase(v1beta1.PodGroupRunning).Obj(),
			}}
			for i := range 8 {
				w.Pods = append(w.Pods, schedtest.MakePod().Name(fmt.Sprint("low-", i)).Group("low").Req(schedtest.Resources{"cpu": "1"}).
					Node("n1").Phase(v1.PodRunning).Annotation("volcano.sh/preemptable", "true").Obj())
			}
			c, action := newShared(t, w)
			c.registry.RegisterPlugin(evictionbackoff.Spec())
			c.registry.RegisterAction(preempt.NewReclaim(nil))
			c.conf = "actions: allocate, reclaim\ntiers:\n- plugins:\n  - name: evictionbackoff\n- plugins:\n  - name: gang\n- plugins:\n  - name: predicates\n  - name: proportion\n  - name: nodeorder\n"
			action.SetAttemptTime(schedtest.Namespace, tt.left)
			c.look(func(ssn *sessiontest.Session) {
				reclaim, _ := vcframework.GetAction(preempt.ReclaimName)
				ssn.Run(reclaim)
				if got := ssn.Evicts(); len(got) != tt.want {
					t.Errorf("evicted %v, want %d pods", got, tt.want)
				}
			})
		})
	}
}

// TestAttemptsThatBindNothingCount checks which attempts use up time of their namespace: attempts that fail, and
// attempts after which a gang waits for resources being released.
func TestAttemptsThatBindNothingCount(t *testing.T) {
	tests := map[string]struct {
		cpu       string
		partner   string // the request of another gang of the gang group, if it is a group
		releasing bool   // a pod that terminates fills the larger node n4
		want      bool
	}{
		"a gang that is placed":                                {cpu: "2"},
		"a gang that no node takes":                            {cpu: "9", want: true},
		"a gang group of which a gang fits not":                {cpu: "9", partner: "9", want: true},
		"a gang that waits for resources being released":       {cpu: "9", releasing: true, want: true},
		"a gang group that waits for resources being released": {cpu: "9", partner: "1", releasing: true, want: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pods, podGroup := gang("x", tt.cpu)
			w := sessiontest.ClusterSpec{Nodes: []*v1.Node{node("n1", "ib-a", "8"), node("n2", "ib-a", "8"), node("n3", "ib-a", "8")}, Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}}
			if tt.partner != "" {
				more, second := gang("z", tt.partner)
				w.Pods, w.PodGroups = append(w.Pods, more...), append(w.PodGroups, second)
				for _, podGroup := range w.PodGroups {
					podGroup.Annotations = map[string]string{gangs.GroupsAnnotation: `["ns/x","ns/z"]`}
				}
			}
			if tt.releasing {
				w.Nodes = append(w.Nodes, node("n4", "ib-a", "9"))
				w.Pods = append(w.Pods, schedtest.MakePod().Name("leaves").Node("n4").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "9"}).Terminating().Obj())
			}
			c, action := newShared(t, w)
			full := action.AttemptTime(schedtest.Namespace)
			c.look(func(ssn *sessiontest.Session) {
				if got := len(ssn.Pipelined()); (got > 0) != tt.releasing {
					t.Errorf("%d pods wait for resources being released, want some: %t", got, tt.releasing)
				}
			})
			if left := action.AttemptTime(schedtest.Namespace); (left < full) != tt.want {
				t.Errorf("%s of %s are left, want less than all: %t", left, full, tt.want)
			}
			if left := action.AttemptTime("other"); left != full {
				t.Errorf("%s of %s are left to the other namespace, whose gang is placed, want all", left, full)
			}
		})
	}
}

// TestAGangThatWaitsForReleasesKeepsItsPlace checks that a gang or gang group that waits for a terminating pod is tried
// even after other gangs of its namespace have used up their time. Otherwise another gang would get the resources that
// it holds.
func TestAGangThatWaitsForReleasesKeepsItsPlace(t *testing.T) {
	for _, grouped := range []bool{false, true} {
		pods, podGroup := gang("x", "9")
		w := sessiontest.ClusterSpec{Nodes: []*v1.Node{node("n1", "ib-a", "10")}, Pods: append(pods, leaver("n1", "10")), PodGroups: []*v1beta1.PodGroup{podGroup}}
		if grouped {
			more, second := gang("z", "1")
			w.Pods, w.PodGroups = append(w.Pods, more...), append(w.PodGroups, second)
			for _, podGroup := range w.PodGroups {
				podGroup.Annotations = map[string]string{gangs.GroupsAnnotation: `["ns/x","ns/z"]`}
			}
		}
		c, action := newShared(t, w)
		for session := range 3 {
			c.look(func(ssn *sessiontest.Session) {
				if _, waits := ssn.Pipelined()["ns/x-0"]; !waits {
					t.Errorf("grouped: %t, in session %d only %v wait for releases", grouped, session, ssn.Pipelined())
				}
			})
			action.SetAttemptTime(schedtest.Namespace, noTime)
		}
	}
}

// TestAGroupIsPlacedFirstIfOneOfItsGangsIs checks that a gang group has a turn if a plugin places one of its gangs
// first, even after other gangs of its namespace have used up their time.
func TestAGroupIsPlacedFirstIfOneOfItsGangsIs(t *testing.T) {
	pods, podGroup := gang("x", "1")
	more, second := gang("z", "1")
	for _, podGroup := range []*v1beta1.PodGroup{podGroup, second} {
		podGroup.Annotations = map[string]string{gangs.GroupsAnnotation: `["ns/x","ns/z"]`}
	}
	c, action := newShared(t, sessiontest.ClusterSpec{
		Nodes: []*v1.Node{node("n1", "ib-a", "8")}, Pods: append(pods, more...), PodGroups: []*v1beta1.PodGroup{podGroup, second},
	})
	c.helped(nothing, sessiontest.PlaceFirstFn(func(job *api.JobInfo) bool { return job.Name == "z" }))
	action.SetAttemptTime(schedtest.Namespace, noTime)
	c.look(func(ssn *sessiontest.Session) {
		if binds := ssn.Binds(); binds["ns/x-0"] == "" || binds["ns/z-0"] == "" {
			t.Errorf("%v are bound, want both gangs", binds)
		}
	})
}
