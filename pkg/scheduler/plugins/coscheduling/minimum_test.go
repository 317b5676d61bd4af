// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// placedIn runs a session on the cluster. It returns how many members of each gang are handed over to be bound.
func placedIn(t *testing.T, conf string, w sessiontest.ClusterSpec) map[string]int {
	t.Helper()
	cluster := sessiontest.New(w)
	defer cluster.Close()
	registry := framework.NewRegistry()
	registry.RegisterPlugin(Spec())
	registry.RegisterAction(allocate.New())
	ssn := cluster.Open(registry, conf)
	defer ssn.Close()
	action, _ := vcframework.GetAction("allocate")
	ssn.Run(action)
	return boundOf(ssn)
}

// roomFor returns a cluster with one node and the gang. change may modify the gang's pods.
func roomFor(cpu string, g gangOf, change func(*v1.Pod)) sessiontest.ClusterSpec {
	w := sessiontest.ClusterSpec{Nodes: []*v1.Node{holds(cpu).Name("n").Obj()}, PodGroups: []*v1beta1.PodGroup{g.podGroup()}, Pods: g.pods()}
	for _, pod := range w.Pods {
		change(pod)
	}
	return w
}

func ofThoseOnNodes(change func(*v1.Pod)) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		if pod.Spec.NodeName != "" {
			change(pod)
		}
	}
}

// TestARecreatedGang: if all members of a gang of three were deleted or have ended, and are created again, the minimum
// applies again. No member is placed if only one fits.
func TestARecreatedGang(t *testing.T) {
	now := metav1.Now()
	settings := map[string]map[string]string{
		"Strict":              says(gangs.ModeAnnotation, "Strict"),
		"only-waiting":        says(gangs.MatchPolicyAnnotation, "only-waiting"),
		"once-satisfied":      says(gangs.MatchPolicyAnnotation, "once-satisfied"),
		"waiting-and-running": says(gangs.MatchPolicyAnnotation, "waiting-and-running"),
	}
	for name, c := range map[string]struct {
		gang   gangOf
		room   string
		change func(*v1.Pod)
	}{
		"it had completed, and its pods are gone": {gangOf{waiting: 3, completed: true}, "1", func(*v1.Pod) {}},
		"those that have succeeded stay": {gangOf{running: 3, waiting: 3, completed: true}, "1", ofThoseOnNodes(func(pod *v1.Pod) {
			pod.Status.Phase = v1.PodSucceeded
		})},
		"the old ones are still ending": {gangOf{running: 3, waiting: 3, satisfied: true}, "4", ofThoseOnNodes(func(pod *v1.Pod) {
			pod.DeletionTimestamp = &now
		})},
	} {
		for setting, annotations := range settings {
			t.Run(name+", "+setting, func(t *testing.T) {
				c.gang.name, c.gang.minimum, c.gang.annotations = "x", 3, annotations
				if diff := cmp.Diff(map[string]int{}, placedIn(t, conf, roomFor(c.room, c.gang, c.change))); diff != "" {
					t.Errorf("placed members, with room for one of three (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestTasksOfAVolcanoJobAfterOneAnother: tasks of a Volcano Job, which controls all pods of the gang, may run one after
// another. Succeeded pods count for the minimum.
func TestTasksOfAVolcanoJobAfterOneAnother(t *testing.T) {
	w := roomFor("9", gangOf{name: "x", minimum: 4, running: 2, waiting: 2, annotations: says(gangs.ModeAnnotation, "Strict")}, ofThoseOnNodes(func(pod *v1.Pod) {
		pod.Status.Phase = v1.PodSucceeded
	}))
	yes := true
	owners := []metav1.OwnerReference{{APIVersion: "batch.volcano.sh/v1alpha1", Kind: "Job", Name: "x", UID: "x", Controller: &yes}}
	w.PodGroups[0].OwnerReferences = owners
	for _, pod := range w.Pods {
		pod.OwnerReferences = owners
	}
	if diff := cmp.Diff(map[string]int{"x": 2}, placedIn(t, conf, w)); diff != "" {
		t.Errorf("placed members of the second task (-want +got):\n%s", diff)
	}
}

// TestASatisfiedGangIsNotAdmittedAgain checks that a satisfied gang whose phase was reset to Pending does not need
// admission: its queue already admitted its resources.
func TestASatisfiedGangIsNotAdmittedAgain(t *testing.T) {
	for _, satisfied := range []bool{true, false} {
		w := roomFor("9", gangOf{name: "x", minimum: 3, running: 2, waiting: 1, satisfied: satisfied, annotations: says(gangs.ModeAnnotation, "NonStrict")}, func(*v1.Pod) {})
		w.PodGroups[0].Status.Phase = v1beta1.PodGroupPending
		most := v1.ResourceList{"cpu": *cpus("90")}
		w.PodGroups[0].Spec.MinResources = &most
		cluster := sessiontest.New(w)
		registry := framework.NewRegistry()
		registry.RegisterPlugin(Spec())
		ssn := cluster.Open(registry, conf)
		if got := ssn.Jobs["ns/x"].IsPending(); got == satisfied {
			t.Errorf("a gang that is satisfied (%t) waits to be admitted: %t", satisfied, got)
		}
		ssn.Close()
		cluster.Close()
	}
}

// threeOf runs the test with a strict gang of three that runs on a node with room for exactly three pods.
func threeOf(t *testing.T, test func(*testing.T, *simulation, func(n string) *v1.Pod)) {
	t.Helper()
	pod := func(n string) *v1.Pod { return schedtest.MakePod().Name("x-" + n).Group("x").Req(cores("1")).Obj() }
	w := sessiontest.ClusterSpec{
		Nodes:     []*v1.Node{holds("3").Name("n").Obj()},
		PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("x").MinMember(3).Annotation(gangs.ModeAnnotation, "Strict").Obj()},
		Pods:      []*v1.Pod{pod("0"), pod("1"), pod("2")},
	}
	in(t, w, strings.ReplaceAll(sessionsConf, "{ARGUMENTS}", "{}"), func(t *testing.T, w *simulation) {
		w.pass(2*time.Second, time.Second)
		if !w.runs("x") {
			t.Fatal("the gang does not run")
		}
		test(t, w, pod)
	})
}

// TestARestartedWorkloadIsWhole: a workload is restarted, and another pod takes resources of its old pods before all
// old pods are deleted. Then no part of the gang may run (https://github.com/koordinator-sh/koordinator/issues/2244).
func TestARestartedWorkloadIsWhole(t *testing.T) {
	threeOf(t, func(t *testing.T, w *simulation, pod func(string) *v1.Pod) {
		now := metav1.Now()
		for i := range 3 {
			w.update(fmt.Sprintf("x-%d", i), func(p *v1.Pod) { p.DeletionTimestamp = &now })
		}
		w.add(pod("3"), pod("4"), pod("5"))
		w.session()
		w.remove("x-0")
		w.pass(3*time.Second, time.Second)
		w.remove("x-1")
		w.remove("x-2")
		w.add(schedtest.MakePod().Name("other").Req(cores("2")).Node("n").Phase(v1.PodRunning).Obj())
		w.pass(time.Minute, time.Second)
		if n := len(w.job("x").TaskStatusIndex[api.Running]); n != 0 {
			t.Errorf("%d of 3 members run a minute later, want none", n)
		}
	})
}

// TestTheNextRunIsWhole: all members of a gang succeed, and new pods are created for its next run. While another pod
// uses resources that the gang needs, none of the new pods runs.
func TestTheNextRunIsWhole(t *testing.T) {
	for name, stay := range map[string]bool{"the old pods are deleted in the same moment": false, "the old pods stay": true} {
		t.Run(name, func(t *testing.T) {
			threeOf(t, func(t *testing.T, w *simulation, pod func(string) *v1.Pod) {
				for i := range 3 {
					w.update(fmt.Sprintf("x-%d", i), func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded })
				}
				w.session()
				w.add(schedtest.MakePod().Name("other").Req(cores("2")).Node("n").Phase(v1.PodRunning).Obj())
				if !stay {
					for i := range 3 {
						w.remove(fmt.Sprintf("x-%d", i))
					}
				}
				w.add(pod("3"), pod("4"), pod("5"))
				w.pass(time.Minute, time.Second)
				if n := len(w.job("x").TaskStatusIndex[api.Running]); n != 0 {
					t.Errorf("%d of 3 members run a minute later, want none", n)
				}
				w.remove("other")
				w.pass(time.Minute, time.Second)
				if n := len(w.job("x").TaskStatusIndex[api.Running]); n != 3 {
					t.Errorf("%d of 3 members run although all fit", n)
				}
			})
		})
	}
}

// TestMinimaOfSettings checks that allocate uses the minima of a gang's settings also with network topologies,
// sub-groups, scheduling gates and best-effort members.
func TestMinimaOfSettings(t *testing.T) {
	strict, not := says(gangs.ModeAnnotation, "Strict"), says(gangs.ModeAnnotation, "NonStrict")
	// tier adds a hard network topology to a gang of four, with the tier's number or name.
	tier := func(byName bool, g gangOf) sessiontest.ClusterSpec {
		w := roomFor("5", g, func(*v1.Pod) {})
		pg := schedtest.MakePodGroup()
		if byName {
			pg.TopologyByName(v1beta1.HardNetworkTopologyMode, "leaf")
		} else {
			pg.Topology(v1beta1.HardNetworkTopologyMode, 1)
		}
		w.PodGroups[0].Spec.NetworkTopology = pg.Obj().Spec.NetworkTopology
		w.HyperNodes = []*topologyv1alpha1.HyperNode{schedtest.MakeHyperNode().Name("leaf-0").Tier(1).TierName("leaf").Nodes("n").Obj()}
		return w
	}
	// beside adds a member without requests that fits no node.
	beside := func(g gangOf) sessiontest.ClusterSpec {
		w := roomFor("9", g, func(*v1.Pod) {})
		w.Pods = append(w.Pods, schedtest.MakePod().Name("x-free").Group("x").NodeSelector("no", "where").Obj())
		return w
	}
	// cells adds a policy with sub-groups of two members, of which two sub-groups are required.
	cells := func(cpu string, g gangOf, of ...string) sessiontest.ClusterSpec {
		w := roomFor(cpu, g, func(*v1.Pod) {})
		w.PodGroups[0].Spec.SubGroupPolicy = schedtest.MakePodGroup().SubGroups("cells", "cell", 2, 2).Obj().Spec.SubGroupPolicy
		for i, cell := range of {
			w.Pods[i].Labels = map[string]string{"cell": cell}
		}
		return w
	}
	// gated gives the last member a scheduling gate.
	gated := func(g gangOf) sessiontest.ClusterSpec {
		w := roomFor("9", g, func(*v1.Pod) {})
		w.Pods[len(w.Pods)-1].Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/mine"}}
		return w
	}
	// follows adds pending members of a new run to members that have succeeded.
	follows := func(g gangOf) sessiontest.ClusterSpec {
		g.minimum, g.running, g.roles, g.runningAs = 2, 1, map[string]int32{"a": 1, "b": 1}, []string{"a"}
		g.annotations = says(gangs.MatchPolicyAnnotation, string(gangs.OnlyWaiting))
		return roomFor("9", g, ofThoseOnNodes(func(pod *v1.Pod) { pod.Status.Phase = v1.PodSucceeded }))
	}
	for name, c := range map[string]struct {
		given sessiontest.ClusterSpec
		want  map[string]int
	}{
		"strict, beside a gated member":    {gated(gangOf{name: "x", minimum: 2, waiting: 3, annotations: strict}), map[string]int{"x": 2}},
		"only-waiting, all roles wait":     {follows(gangOf{name: "x", waiting: 2, waitingFor: []string{"a", "b"}}), map[string]int{"x": 2}},
		"only-waiting, a role has ended":   {follows(gangOf{name: "x", waiting: 2, waitingFor: []string{"b", "b"}}), map[string]int{}},
		"strict, a tier by its number":     {tier(false, gangOf{name: "x", minimum: 4, waiting: 6, annotations: strict}), map[string]int{}},
		"strict, a tier by its name":       {tier(true, gangOf{name: "x", minimum: 4, waiting: 6, annotations: strict}), map[string]int{}},
		"not strict, a tier by its name":   {tier(true, gangOf{name: "x", minimum: 4, waiting: 6, annotations: not}), map[string]int{"x": 5}},
		"satisfied, a tier by its name":    {tier(true, gangOf{name: "x", minimum: 4, running: 1, waiting: 1, satisfied: true, annotations: not}), map[string]int{"x": 1}},
		"satisfied, beside a best effort":  {beside(gangOf{name: "x", minimum: 3, running: 1, waiting: 1, satisfied: true, annotations: not}), map[string]int{"x": 1}},
		"not strict, beside a best effort": {beside(gangOf{name: "x", minimum: 2, waiting: 2, annotations: not}), map[string]int{"x": 2}},
		"strict, beside a best effort":     {beside(gangOf{name: "x", minimum: 2, waiting: 2, annotations: strict}), map[string]int{}},
		"satisfied, of sub-groups":         {cells("9", gangOf{name: "x", minimum: 4, running: 2, waiting: 1, satisfied: true, annotations: not}, "a", "b", "a"), map[string]int{"x": 1}},
		"strict, of sub-groups, no room":   {cells("5", gangOf{name: "x", minimum: 4, waiting: 6, annotations: strict}, "a", "a", "b", "b", "c", "c"), map[string]int{}},
		"strict, of sub-groups":            {cells("6", gangOf{name: "x", minimum: 4, waiting: 6, annotations: strict}, "a", "a", "b", "b", "c", "c"), map[string]int{"x": 6}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, placedIn(t, conf+"  - name: network-topology-aware\n", c.given)); diff != "" {
				t.Errorf("placed (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAGangLacksMembersOfSubGroups checks that a gang lacks members if it has fewer sub-groups than the two that it
// requires.
func TestAGangLacksMembersOfSubGroups(t *testing.T) {
	for cells, want := range map[string]bool{"aabb": true, "aaaa": false} {
		w := roomFor("9", gangOf{name: "x", minimum: 4, waiting: 4}, func(*v1.Pod) {})
		w.PodGroups[0].Spec.SubGroupPolicy = schedtest.MakePodGroup().SubGroups("cells", "cell", 2, 2).Obj().Spec.SubGroupPolicy
		for i, cell := range cells {
			w.Pods[i].Labels = map[string]string{"cell": string(cell)}
		}
		cluster := sessiontest.New(w)
		ssn := cluster.Open(framework.NewRegistry(), strings.ReplaceAll(conf, "  - name: coscheduling\n", ""))
		if got := complete(ssn.Jobs["ns/x"]); got != want {
			t.Errorf("a gang with members of cells %s is complete: %t, want %t", cells, got, want)
		}
		ssn.Close()
		cluster.Close()
	}
}

// TestWhyAGroupWaits checks that the reason why one gang is incomplete is reported on the other gangs of its group.
func TestWhyAGroupWaits(t *testing.T) {
	xy := says(gangs.GroupsAnnotation, groupOf("x", "y"))
	onlyWaiting := says(gangs.GroupsAnnotation, groupOf("x", "y"), gangs.MatchPolicyAnnotation, "only-waiting")
	for want, list := range map[string][]gangOf{
		"ns/y has 1 of 2 pods": {{name: "x", minimum: 2, waiting: 2, annotations: xy}, {name: "y", minimum: 2, waiting: 1, annotations: xy}},
		"ns/x has 2 of 2 pods, but too few of a role or sub-group":                                {{name: "x", minimum: 2, waiting: 2, roles: map[string]int32{"ps": 1, "w": 1}, waitingFor: []string{"w", "w"}, annotations: xy}, {name: "y", minimum: 2, waiting: 2, annotations: xy}},
		"ns/x has 0 of 2 pending pods required (match policy only-waiting ignores pods on nodes)": {{name: "x", minimum: 2, running: 2, annotations: onlyWaiting}, {name: "y", minimum: 2, waiting: 2, annotations: onlyWaiting}},
	} {
		t.Run(want, func(t *testing.T) {
			ssn := open(t, "9", list)
			other := api.JobID("ns/x")
			if strings.HasPrefix(want, string(other)) {
				other = "ns/y"
			}
			if verdict := ssn.JobValid(ssn.Jobs[other]); verdict == nil || verdict.Reason != gangs.WaitingForGroup || !strings.HasSuffix(verdict.Message, "incomplete gangs: "+want) {
				t.Errorf("the verdict on %s is %+v", other, verdict)
			}
			if diff := cmp.Diff(map[string]int{}, boundOf(ssn)); diff != "" {
				t.Errorf("bound (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhole checks which gangs have condition GangWhole: gangs with a match policy other than once-satisfied that
// reached their minimum, together with their group.
func TestWhole(t *testing.T) {
	both := func(policy string) map[string]string {
		return says(gangs.GroupsAnnotation, groupOf("x", "y"), gangs.MatchPolicyAnnotation, policy)
	}
	for name, c := range map[string]struct {
		list []gangOf
		want map[string]string
	}{
		"both": {[]gangOf{{name: "x", minimum: 1, running: 1, annotations: both("only-waiting")}, {name: "y", minimum: 1, running: 1, annotations: both("waiting-and-running")}},
			map[string]string{"x": "OnlyWaiting", "y": "WaitingAndRunning"}},
		"one of two":     {[]gangOf{{name: "x", minimum: 1, running: 1, annotations: both("only-waiting")}, {name: "y", minimum: 1, waiting: 1, annotations: both("only-waiting")}}, map[string]string{}},
		"once-satisfied": {[]gangOf{{name: "x", minimum: 1, running: 1, annotations: says(gangs.ModeAnnotation, "Strict")}}, map[string]string{}},
		"waiting-and-running, of another policy before": {[]gangOf{{name: "x", minimum: 1, running: 1, whole: true, annotations: says(gangs.MatchPolicyAnnotation, "waiting-and-running")}},
			map[string]string{"x": "WaitingAndRunning"}},
		"its members were lost": {[]gangOf{{name: "x", minimum: 1, waiting: 1, whole: true, annotations: says(gangs.MatchPolicyAnnotation, "only-waiting")}}, map[string]string{}},
		"all members of the other have ended": {[]gangOf{{name: "x", minimum: 1, running: 1, annotations: both("only-waiting")}, {name: "y", minimum: 1, running: 1, ended: true, annotations: both("only-waiting")}},
			map[string]string{}},
		"once-satisfied, of another policy before": {[]gangOf{{name: "x", minimum: 1, running: 1, whole: true, annotations: says(gangs.ModeAnnotation, "Strict")}}, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			for _, job := range open(t, "9", c.list).Jobs {
				if known := conditions.Find(&job.PodGroup.Status, Whole); known != nil {
					got[job.Name] = known.Reason
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("reasons of the condition (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOnlyWaitingInPart: members on nodes count for the minimum of an only-waiting gang that a crash left partially
// bound, and not for one that was whole.
func TestOnlyWaitingInPart(t *testing.T) {
	for name, c := range map[string]struct {
		whole bool
		want  map[string]int
	}{"a crash left it": {false, map[string]int{"x": 2}}, "it was whole": {true, map[string]int{}}} {
		t.Run(name, func(t *testing.T) {
			w := roomFor("9", gangOf{name: "x", minimum: 3, running: 1, waiting: 2, annotations: says(gangs.MatchPolicyAnnotation, "only-waiting")},
				ofThoseOnNodes(func(pod *v1.Pod) { pod.Annotations[binding.MinimumAnnotation] = "3" }))
			if c.whole {
				w.PodGroups[0].Status.Conditions = []v1beta1.PodGroupCondition{{Type: v1beta1.PodGroupConditionType(Whole), Status: v1.ConditionTrue, Reason: gangs.WholeOnlyWaiting}}
			}
			if diff := cmp.Diff(c.want, placedIn(t, conf, w)); diff != "" {
				t.Errorf("placed (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheRestOfARun: when other members have succeeded, the remaining members of the run are placed one by one: a
// member that is retried, and members above the minimum that did not fit before.
func TestTheRestOfARun(t *testing.T) {
	for _, owned := range []bool{false, true} {
		for _, policy := range []string{"once-satisfied", "waiting-and-running"} {
			of := func(pod *v1.Pod) *v1.Pod {
				if owned {
					yes := true
					pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "x", UID: "job", Controller: &yes}}
				}
				return pod
			}
			run := func(cpu string, minimum int32, pods int, test func(*testing.T, *simulation)) {
				w := sessiontest.ClusterSpec{
					Nodes: []*v1.Node{holds(cpu).Name("n").Obj()},
					PodGroups: []*v1beta1.PodGroup{
						schedtest.MakePodGroup().Name("x").MinMember(minimum).Annotation(gangs.MatchPolicyAnnotation, policy).Obj(),
					},
				}
				for _, pod := range members(schedtest.MakePod().Req(cores("1")), "x", pods) {
					w.Pods = append(w.Pods, of(pod))
				}
				in(t, w, strings.ReplaceAll(sessionsConf, "{ARGUMENTS}", "{}"), func(t *testing.T, w *simulation) {
					w.pass(2*time.Second, time.Second)
					test(t, w)
				})
			}
			t.Run(fmt.Sprintf("tried again, %s, owned: %t", policy, owned), func(t *testing.T) {
				run("9", 3, 3, func(t *testing.T, w *simulation) {
					for _, name := range []string{"x-0", "x-1"} {
						w.update(name, func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded })
					}
					w.session()
					w.remove("x-2")
					w.add(of(schedtest.MakePod().Name("x-3").Group("x").Req(cores("1")).Obj()))
					w.pass(5*time.Second, time.Second)
					if w.bound["x-3"] == 0 {
						t.Error("the member that is retried is not placed")
					}
				})
			})
			t.Run(fmt.Sprintf("above the minimum, %s, owned: %t", policy, owned), func(t *testing.T) {
				run("4", 2, 5, func(t *testing.T, w *simulation) {
					for name := range w.bound {
						w.update(name, func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded })
					}
					w.pass(5*time.Second, time.Second)
					if len(w.bound) != 5 {
						t.Errorf("%d of 5 members were placed", len(w.bound))
					}
				})
			})
		}
	}
}

// TestTheNextRunOfAnotherController: pods of another controller than that of the succeeded pods belong to a new run,
// even if there are fewer of them.
func TestTheNextRunOfAnotherController(t *testing.T) {
	w := roomFor("9", gangOf{name: "x", minimum: 3, running: 3, waiting: 2, annotations: says(gangs.MatchPolicyAnnotation, "waiting-and-running")}, func(pod *v1.Pod) {
		yes, owner := true, types.UID("next")
		if pod.Spec.NodeName != "" {
			pod.Status.Phase, owner = v1.PodSucceeded, "first"
		}
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: string(owner), UID: owner, Controller: &yes}}
	})
	if diff := cmp.Diff(map[string]int{}, placedIn(t, conf, w)); diff != "" {
		t.Errorf("placed members, with two of three pods (-want +got):\n%s", diff)
	}
}

// TestAGangThatLostMembersKeepsNoGroupFromBeingSatisfied: a gang that reached its minimum together with the group, and
// then lost members, does not prevent the group from being satisfied.
func TestAGangThatLostMembersKeepsNoGroupFromBeingSatisfied(t *testing.T) {
	for name, c := range map[string]struct{ whole, want bool }{"it had its minimum": {true, true}, "it never had": {false, false}} {
		t.Run(name, func(t *testing.T) {
			xy := groupOf("x", "y")
			w := roomFor("9", gangOf{name: "x", minimum: 2, running: 2, annotations: says(gangs.GroupsAnnotation, xy)}, func(*v1.Pod) {})
			y := gangOf{name: "y", minimum: 2, running: 1, annotations: says(gangs.GroupsAnnotation, xy, gangs.MatchPolicyAnnotation, "waiting-and-running")}
			pg := y.podGroup()
			if c.whole {
				pg.Status.Conditions = []v1beta1.PodGroupCondition{{Type: v1beta1.PodGroupConditionType(Whole), Status: v1.ConditionTrue, Reason: wholeReasons[gangs.WaitingAndRunning]}}
			}
			w.PodGroups, w.Pods = append(w.PodGroups, pg), append(w.Pods, y.pods()...)
			cluster := sessiontest.New(w)
			defer cluster.Close()
			registry := framework.NewRegistry()
			registry.RegisterPlugin(Spec())
			ssn := cluster.Open(registry, conf)
			defer ssn.Close()
			if got := conditions.Find(&ssn.Jobs["ns/x"].PodGroup.Status, Satisfied) != nil; got != c.want {
				t.Errorf("the other gang is satisfied: %t, want %t", got, c.want)
			}
		})
	}
}
