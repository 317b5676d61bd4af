// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestAGroupOfGangsThatWereAloneWaitsOutTheLongestBackoff: gangs that returned to Pending at different times and with
// different numbers of timeouts join one group. The longest backoff applies to the group.
func TestAGroupOfGangsThatWereAloneWaitsOutTheLongestBackoff(t *testing.T) {
	groups := func(name string) *schedtest.PodGroupBuilder {
		return waits(name).Annotation(gangs.GroupsAnnotation, groupOf("a", "b", "c"))
	}
	in(t, narrow([]*schedtest.PodGroupBuilder{groups("a"), groups("b"), groups("c")}, members(small(), "a", 3)...), limits, func(t *testing.T, w *simulation) {
		w.session()
		for range 20 { // gangs have no order
			now := time.Now()
			for name, known := range map[string]knownLimit{
				"a": {reason: timedOut, since: now.Add(-5 * time.Second), tries: 1},
				"b": {reason: timedOut, since: now, tries: 3, message: "b timed out"},
				"c": {reason: timedOut, since: now.Add(-5 * time.Second), tries: 2},
			} {
				known.uid = w.job(name).PodGroup.UID
				w.plugin.limits[w.job(name).UID] = known
			}
			w.session(func(*sessiontest.Session) {
				for _, l := range w.plugin.session.limits {
					if want := now.Add((&admissionDeadline{id: l.id, tries: 3}).backoff()); l.tries != 3 || !l.until.Equal(want) {
						t.Errorf("the group has %d timeouts and a backoff until %s, want 3 and %s", l.tries, l.until, want)
					}
				}
			})
		}
		delete(w.plugin.limits, w.job("c").UID) // a gang that joins the group
		w.session(func(*sessiontest.Session) {
			if waits := w.plugin.session.gangs[w.job("c").UID].waits; waits == nil || waits.Message != "b timed out" {
				t.Errorf("the verdict on a gang that joins the group is %v", waits)
			}
		})
	})
}

func TestSooner(t *testing.T) {
	none, early, late := time.Time{}, time.Unix(1, 0), time.Unix(2, 0)
	for _, c := range [][3]time.Time{{none, none, none}, {none, early, early}, {early, none, early}, {early, late, early}, {late, early, early}} {
		if got := sooner(c[0], c[1]); !got.Equal(c[2]) {
			t.Errorf("the sooner time of %s and %s is %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

// TestPodsThatWaitBesideRunningOnesAreNoOtherRun checks that pending pods are no new run while a member runs, even if
// another member has succeeded.
func TestPodsThatWaitBesideRunningOnesAreNoOtherRun(t *testing.T) {
	w := roomFor("2", gangOf{name: "x", minimum: 2, running: 2, waiting: 2, annotations: says(gangs.MatchPolicyAnnotation, "waiting-and-running")}, func(pod *v1.Pod) {
		if pod.Name == "x-0" {
			pod.Status.Phase = v1.PodSucceeded
		}
	})
	if diff := cmp.Diff(map[string]int{"x": 1}, placedIn(t, conf, w)); diff != "" {
		t.Errorf("placed members, with room for one of two (-want +got):\n%s", diff)
	}
}

// TestAGangIsSatisfiedAtOnce checks that a strict gang which already runs with its minimum is satisfied in the first
// session, which may then place members one by one.
func TestAGangIsSatisfiedAtOnce(t *testing.T) {
	w := roomFor("3", gangOf{name: "x", minimum: 2, running: 2, waiting: 2, annotations: says(gangs.ModeAnnotation, "Strict")}, func(*v1.Pod) {})
	if diff := cmp.Diff(map[string]int{"x": 1}, placedIn(t, conf, w)); diff != "" {
		t.Errorf("placed members, with room for one of two (-want +got):\n%s", diff)
	}
}

// TestMembersThatRunCompleteAGroup checks that running members count for a group's minimum together with pending
// members.
func TestMembersThatRunCompleteAGroup(t *testing.T) {
	both := says(gangs.GroupsAnnotation, groupOf("x", "y"), gangs.MatchPolicyAnnotation, "waiting-and-running")
	ssn := open(t, "9", []gangOf{{name: "x", minimum: 1, waiting: 1, annotations: both}, {name: "y", minimum: 2, running: 1, waiting: 1, annotations: both}})
	if diff := cmp.Diff(map[string]int{"x": 1, "y": 1}, boundOf(ssn)); diff != "" {
		t.Errorf("bound (-want +got):\n%s", diff)
	}
}

// TestMultiplesOfAnyRuleCount checks that a gang with a multiple in its first rule counts as having multiples, even if
// its last rule has none.
func TestMultiplesOfAnyRuleCount(t *testing.T) {
	for multiple, want := range map[int]bool{1: false, 2: true} {
		g := &gang{JobInfo: api.NewJobInfo("x"), Settings: gangs.Settings{Gather: []gangs.GatherRule{
			{Layer: nodeLayer, Prefer: true, Multiple: multiple}, {Layer: clusterLayer, Prefer: true, Multiple: 1},
		}}}
		if a := (&network{}).request(g); a.multiple != want || a.err != nil {
			t.Errorf("a multiple of %d: the gang has multiples: %t (%v), want %t", multiple, a.multiple, a.err, want)
		}
	}
}

// TestGangsOfASessionKeepCompany checks that affinity counts include pods that the same session has placed: the second
// gang is placed beside the first.
func TestGangsOfASessionKeepCompany(t *testing.T) {
	for selector, want := range map[string]string{"train": "b1x", "": "a2"} {
		affinityCounts := func(p *schedtest.PodBuilder) {
			if selector != "" {
				p.Annotation(gangs.TopologySelectorAnnotation, selector)
			}
		}
		first, second := gangNamed("first", 1, asks("Block must")), gangNamed("second", 5, asks("Block must"))
		second.CreationTimestamp.Time = schedtest.Created.AddDate(1, 0, 0)
		given := sessiontest.ClusterSpec{Nodes: tree(), PodGroups: []*v1beta1.PodGroup{first, second}}
		given.Pods = append(waiting("first", 0, 1, affinityCounts, func(p *schedtest.PodBuilder) { p.NodeSelector(v1.LabelHostname, "b2x") }), waiting("second", 0, 5, affinityCounts)...)
		in(t, given, strings.Replace(sessionsConf, "{ARGUMENTS}", "{}", 1), func(t *testing.T, w *simulation) {
			w.session()
			if got := w.pods["second-0"].Spec.NodeName; w.pods["first-0"].Spec.NodeName != "b2x" || got != want {
				t.Errorf("with selector %q the first gang is on %s and the second on %s, want b2x and %s", selector, w.pods["first-0"].Spec.NodeName, got, want)
			}
		})
	}
}

// TestRevertedPlacementsAttractNoMembers checks that placements of a reverted trial do not attract other members of the
// gang.
func TestRevertedPlacementsAttractNoMembers(t *testing.T) {
	affinityCounts := says(gangs.TopologySelectorAnnotation, "s")
	pods := waiting("g", 0, 2, func(p *schedtest.PodBuilder) { p.Annotation(gangs.TopologySelectorAnnotation, "s") })
	pods = append(pods, running("x", 0, "c1"))
	pods[2].Annotations[gangs.TopologySelectorAnnotation] = "s"
	ssn := gatherSession(t, sessiontest.ClusterSpec{Nodes: tree(), Pods: pods, PodGroups: []*v1beta1.PodGroup{gangNamed("g", 2, asks("Block must"), affinityCounts), gangNamed("x", 1)}}, onlyGatherConf, spines, false)
	job := ssn.Jobs["ns/g"]
	firstPlan := func() map[string]int {
		found, err := ssn.Placements.Of(job)
		if err != nil {
			t.Fatal(err)
		}
		first := map[string]int{}
		for plan := range found.Planner.On(map[string]int{"a1": 1, "b1x": 1, "c1": 1}, 1).Plans(1, 1) {
			first[plan[0].Node] = plan[0].Members
			break
		}
		return first
	}
	before := firstPlan()
	statement := vcframework.NewStatement(ssn.Session.Session)
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if err := statement.Allocate(task, ssn.Nodes["b1x"]); err != nil {
			t.Fatal(err)
		}
	}
	statement.Discard()
	if diff := cmp.Diff(map[string]int{"c1": 1}, before); diff != "" {
		t.Errorf("the first plan (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, firstPlan()); diff != "" {
		t.Errorf("the first plan after a reverted trial (-want +got):\n%s", diff)
	}
}

// TestAGroupWaitsForMembersWithSchedulingGates checks that no gang of a group is placed while required members have
// scheduling gates.
func TestAGroupWaitsForMembersWithSchedulingGates(t *testing.T) {
	group := gangs.GroupsAnnotation
	given := nodes(1, "9")
	given.PodGroups = []*v1beta1.PodGroup{gangNamed("x", 1, says(group, groupOf("x", "y"))), gangNamed("y", 2, says(group, groupOf("x", "y")))}
	given.Pods = append(waiting("x", 0, 1), waiting("y", 0, 2)...)
	given.Pods[2].Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/mine"}}
	in(t, given, strings.Replace(sessionsConf, "{ARGUMENTS}", "{}", 1), func(t *testing.T, w *simulation) {
		want := &api.ValidateResult{Reason: gangs.WaitingForGroup, Message: "gang group ns/x,ns/y: incomplete gangs: ns/y has 1 of 2 required pods without scheduling gates"}
		for _, gang := range []api.JobID{"ns/x", "ns/y"} {
			w.session(func(ssn *sessiontest.Session) {
				if diff := cmp.Diff(want, ssn.JobValid(ssn.Jobs[gang])); diff != "" {
					t.Errorf("the verdict on %s (-want +got):\n%s", gang, diff)
				}
			})
		}
		if w.runs("x") {
			t.Error("a gang runs without the other gang of its group")
		}
		w.update("y-1", func(pod *v1.Pod) { pod.Spec.SchedulingGates = nil })
		if w.pass(2*time.Second, time.Second); !w.runs("x") || !w.runs("y") {
			t.Errorf("without the gate x and y run: %t, %t", w.runs("x"), w.runs("y"))
		}
	})
}

// TestTheFirstPodByNameChoosesTheSelector: the selector of a gang is that of its first pod by name that has a selector.
func TestTheFirstPodByNameChoosesTheSelector(t *testing.T) {
	job := api.NewJobInfo("ns/g")
	job.Namespace = "ns"
	for i := range 9 {
		selector := string(rune('a' + i))
		if i == 0 {
			selector = ""
		}
		task := memberOn("ns/g", i, api.Pending, "", selector)
		job.Tasks[task.UID] = task
	}
	for range 20 { // tasks have no order
		if got := selectorOf(job); got != "ns/b" {
			t.Fatalf("the selector is %q, want ns/b, the selector of the first pod that has one", got)
		}
	}
}
