// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcreclaim "volcano.sh/volcano/pkg/scheduler/actions/reclaim"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/evictionbackoff"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// overLimit is far more than failed attempts for gangs of one namespace may cost in a session, and less than in three.
const overLimit = 2_400_000

// newShared returns a cluster with gang other/y, which fits, and namespace ns, and the action that runs in it.
func newShared(t *testing.T, w sessiontest.ClusterSpec) (*counting, *allocate.Action) {
	pods, podGroup := gang("y", "1")
	podGroup.Namespace, pods[0].Namespace, pods[0].UID = "other", "other", types.UID("other-y")
	w.Pods, w.PodGroups = append(w.Pods, pods...), append(w.PodGroups, podGroup)
	c := newGroup(t, nil, nil)
	c.world = w
	action := allocate.New()
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

// TestANamespaceOverItsLimitWaits checks that a gang of a namespace whose failed attempts exceed the limit is not tried
// until later sessions have made up for it. Another namespace's gang is bound in each session.
func TestANamespaceOverItsLimitWaits(t *testing.T) {
	pods, podGroup := gang("x", "1")
	c, action := newShared(t, sessiontest.ClusterSpec{Nodes: []*v1.Node{node("n1", "ib-a", "8")}, Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}})
	action.ChargeNamespace(schedtest.Namespace, overLimit)
	want := []map[string]string{{"other/y-0": "n1"}, {"ns/x-0": "n1", "other/y-0": "n1"}, {"ns/x-0": "n1", "other/y-0": "n1"}}
	for i, want := range want {
		c.look(func(ssn *sessiontest.Session) {
			if diff := cmp.Diff(want, ssn.Binds()); diff != "" {
				t.Errorf("bound in session %d (-want +got):\n%s", i, diff)
			}
			said := "not tried in this cycle: gangs of namespace ns that fit nowhere have used up the namespace's search budget; it has its turn in a later cycle"
			if got := ssn.Jobs["ns/x"].JobFitErrors; i == 0 && got != said {
				t.Errorf("in session %d, the gang said %q, want %q", i, got, said)
			}
		})
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
			action.ChargeNamespace(schedtest.Namespace, overLimit)
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
	action.ChargeNamespace(schedtest.Namespace, overLimit)
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
	action.ChargeNamespace(schedtest.Namespace, overLimit)
	expect(framework.NotTried)
}

// TestAJobThatIsPlacedFirstNeedsNoTurn checks that a job that a plugin places first is tried although failed attempts for
// gangs of its namespace exceed the limit.
func TestAJobThatIsPlacedFirstNeedsNoTurn(t *testing.T) {
	pods, podGroup := gang("x", "1")
	c, action := newShared(t, sessiontest.ClusterSpec{Nodes: []*v1.Node{node("n1", "ib-a", "1")}, Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}})
	c.helped(nothing, sessiontest.PlaceFirstFn(func(job *api.JobInfo) bool { return job.Name == "x" }))
	action.ChargeNamespace(schedtest.Namespace, overLimit)
	c.look(func(ssn *sessiontest.Session) {
		if diff := cmp.Diff(map[string]string{"ns/x-0": "n1"}, ssn.Binds()); diff != "" {
			t.Errorf("bound (-want +got):\n%s", diff)
		}
	})
}

// TestJobsThatArePlacedFirstDoNotUseUpTheLimit checks that attempts to place a job that a plugin places first do not
// count towards the limit of its namespace. It is tried in each session, so other gangs might never be tried.
func TestJobsThatArePlacedFirstDoNotUseUpTheLimit(t *testing.T) {
	pods, podGroup := gang("x", "9")
	c, action := newShared(t, sessiontest.ClusterSpec{Nodes: []*v1.Node{node("n1", "ib-a", "8")}, Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}})
	first := true
	c.helped(nothing, sessiontest.PlaceFirstFn(func(job *api.JobInfo) bool { return job.Name == "x" && first }))
	for _, want := range []int{0, 1} {
		c.look(func(*sessiontest.Session) {})
		if got := action.LooksOf(schedtest.Namespace); got != want {
			t.Errorf("placed first: %t, the gang's attempt counts as %d looks, want %d", first, got, want)
		}
		first = false
		c.world.Nodes = []*v1.Node{node("n2", "ib-a", "8")} // so that the former result is not reused
	}
}

// TestJobsThatCannotBePlacedAreNoCompetitors checks that the limit does not apply if the pods of other namespaces are not
// to be placed in the session, such as gated pods.
func TestJobsThatCannotBePlacedAreNoCompetitors(t *testing.T) {
	for gated, want := range map[bool]int{true: 0, false: 1} {
		pods, podGroup := gang("x", "9")
		c, action := newShared(t, sessiontest.ClusterSpec{Nodes: []*v1.Node{node("n1", "ib-a", "8")}, Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}})
		for _, pod := range c.world.Pods {
			if gated && pod.Namespace == "other" {
				pod.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "later"}}
			}
		}
		c.look(func(*sessiontest.Session) {})
		if got := action.LooksOf(schedtest.Namespace); got != want {
			t.Errorf("with a gated pod in the other namespace: %t, the attempt counts as %d looks, want %d", gated, got, want)
		}
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
	action.ChargeNamespace(schedtest.Namespace, overLimit)
	c.look(func(ssn *sessiontest.Session) {
		for _, gang := range []api.JobID{"ns/x", "ns/z"} {
			if got, _ := ssn.PendingReason(gang); got.Reason != framework.NotTried {
				t.Errorf("gang %s reports %q, want reason %s", gang, got, framework.NotTried)
			}
		}
	})
}

// TestNoPodIsEvictedForAGangThatIsNotTried checks that action reclaim evicts pods for a gang that was tried and fits on no
// idle node, but not for a gang without a turn, which may fit.
func TestNoPodIsEvictedForAGangThatIsNotTried(t *testing.T) {
	tests := map[string]struct {
		nodes   []*v1.Node
		charged int
		want    int
	}{
		"a gang that was tried":     {nodes: []*v1.Node{node("n1", "ib-a", "8")}, want: 4},
		"a gang that was not tried": {nodes: []*v1.Node{node("n1", "ib-a", "8"), node("n2", "ib-a", "8")}, charged: overLimit},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			lender, reclaimable := schedtest.MakeQueue().Name("lender").Obj(), true
			lender.Spec.Reclaimable = &reclaimable
			pods, podGroup := gang("x", "4")
			w := sessiontest.ClusterSpec{Nodes: tt.nodes, Queues: []*v1beta1.Queue{lender}, Pods: pods, PodGroups: []*v1beta1.PodGroup{
				podGroup, schedtest.MakePodGroup().Name("low").Queue("lender").MinMember(0).Phase(v1beta1.PodGroupRunning).Obj(),
			}}
			for i := range 8 {
				w.Pods = append(w.Pods, schedtest.MakePod().Name(fmt.Sprint("low-", i)).Group("low").Req(schedtest.Resources{"cpu": "1"}).
					Node("n1").Phase(v1.PodRunning).Annotation("volcano.sh/preemptable", "true").Obj())
			}
			c, action := newShared(t, w)
			c.registry.RegisterPlugin(evictionbackoff.Spec())
			// Plugin gang decides on victims alone: proportion, in the same tier, would refuse them.
			c.conf = "actions: allocate, reclaim\ntiers:\n- plugins:\n  - name: evictionbackoff\n- plugins:\n  - name: gang\n- plugins:\n  - name: predicates\n  - name: proportion\n  - name: nodeorder\n"
			c.helped(func(ssn *framework.Session) {
				ssn.AddNodeOrderFn("helper", func(_ *api.TaskInfo, n *api.NodeInfo) (float64, error) {
					if n.Name == "n1" { // reclaim looks for victims on the best node, even if another node is idle
						return 10_000, nil
					}
					return 0, nil
				})
			})
			action.ChargeNamespace(schedtest.Namespace, tt.charged)
			c.look(func(ssn *sessiontest.Session) {
				ssn.Run(vcreclaim.New())
				if got := ssn.Evicts(); len(got) != tt.want {
					t.Errorf("evicted %v, want %d pods", got, tt.want)
				}
			})
		})
	}
}

// TestAttemptsThatBindNothingCount checks how many checks of nodes count towards the limit of a namespace: those of failed
// attempts and of attempts that wait for resources being released.
func TestAttemptsThatBindNothingCount(t *testing.T) {
	tests := map[string]struct {
		cpus      []string
		partner   string // the request of another gang of the gang group, if it is a group
		releasing bool   // a pod that terminates fills the larger node n4
		apart     bool   // the pods exclude each other, so that nodes are checked and scored again for each pod
		want      int
	}{
		"a gang that is placed":                                {cpus: []string{"2", "1"}},
		"one class that no node takes":                         {cpus: []string{"9"}, want: 3},
		"two classes, of which one fits":                       {cpus: []string{"9", "1"}, want: 3},
		"pods that exclude each other, one more than nodes":    {cpus: []string{"2", "2", "2", "2"}, apart: true, want: 40},
		"a gang group of which a gang fits not":                {cpus: []string{"9"}, partner: "9", want: 3},
		"a gang that waits for resources being released":       {cpus: []string{"9"}, releasing: true, want: 4},
		"a gang group that is placed":                          {cpus: []string{"2"}, partner: "1"},
		"a gang group that waits for resources being released": {cpus: []string{"9"}, partner: "1", releasing: true, want: 4},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pods, podGroup := gang("x", tt.cpus...)
			w := sessiontest.ClusterSpec{Nodes: []*v1.Node{node("n1", "ib-a", "8"), node("n2", "ib-a", "8"), node("n3", "ib-a", "8")}, Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}}
			for _, pod := range pods {
				if tt.apart {
					pod.Labels = map[string]string{"app": "x"}
					pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
						{LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels}, TopologyKey: v1.LabelHostname},
					}}}
				}
			}
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
			c.look(func(ssn *sessiontest.Session) {
				if got := len(ssn.Pipelined()); (got > 0) != tt.releasing {
					t.Errorf("%d pods wait for resources being released, want some: %t", got, tt.releasing)
				}
			})
			// Attempts that wait for resources being released check each node at least once.
			if got := action.LooksOf(schedtest.Namespace); got < tt.want || got > tt.want && !tt.releasing {
				t.Errorf("%d looks, want %d", got, tt.want)
			}
			if got := action.LooksOf("other"); got != 0 {
				t.Errorf("%d looks of the other namespace, whose gang is placed, want 0", got)
			}
		})
	}
}

// TestAGangThatWaitsForReleasesKeepsItsPlace checks that a gang that waits for a terminating pod is tried also after its
// namespace has exceeded its limit: another gang would get the room that it holds.
func TestAGangThatWaitsForReleasesKeepsItsPlace(t *testing.T) {
	pods, podGroup := gang("x", "9")
	c, action := newShared(t, sessiontest.ClusterSpec{
		Nodes: []*v1.Node{node("n1", "ib-a", "9")}, Pods: append(pods, leaver("n1", "9")), PodGroups: []*v1beta1.PodGroup{podGroup},
	})
	for session := range 3 {
		c.look(func(ssn *sessiontest.Session) {
			if _, waits := ssn.Pipelined()["ns/x-0"]; !waits {
				t.Errorf("in session %d, only %v wait for releases", session, ssn.Pipelined())
			}
		})
		action.ChargeNamespace(schedtest.Namespace, overLimit)
	}
}
