// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

const conf = `
actions: allocate
tiers:
- plugins:
  - name: gang
  - name: coscheduling
- plugins:
  - name: predicates
`

// gangOf describes a gang: its minimum, and how many members run and wait. Each member requests 1 cpu, or the amount in
// large.
type gangOf struct {
	name                  string
	minimum               int32
	running, waiting      int
	gated                 int // how many of the waiting members have a scheduling gate
	large                 string
	annotations           map[string]string
	satisfied, completed  bool
	whole                 bool
	ended                 bool // the running members have succeeded
	roles                 map[string]int32
	runningAs, waitingFor []string
}

func (g gangOf) podGroup() *v1beta1.PodGroup {
	pg := schedtest.MakePodGroup().Name(g.name).MinMember(g.minimum)
	for role, n := range g.roles {
		pg.MinTaskMember(role, n)
	}
	for key, value := range g.annotations {
		pg.Annotation(key, value)
	}
	obj := pg.Obj()
	if g.satisfied {
		satisfied(obj)
	}
	if g.whole {
		obj.Status.Conditions = append(obj.Status.Conditions, v1beta1.PodGroupCondition{Type: v1beta1.PodGroupConditionType(Whole), Status: v1.ConditionTrue, Reason: gangs.WholeOnlyWaiting})
	}
	if g.completed {
		obj.Status.Phase = v1beta1.PodGroupCompleted
	}
	return obj
}

func (g gangOf) pods() []*v1.Pod {
	var pods []*v1.Pod
	for i := range g.running + g.waiting {
		cpu := "1"
		if g.large != "" {
			cpu = g.large
		}
		pod := schedtest.MakePod().Name(fmt.Sprintf("%s-%d", g.name, i)).Group(g.name).Req(schedtest.Resources{"cpu": cpu})
		if i < g.running {
			pod.Node("n").Phase(map[bool]v1.PodPhase{false: v1.PodRunning, true: v1.PodSucceeded}[g.ended])
			if i < len(g.runningAs) {
				pod.Role(g.runningAs[i])
			}
		} else if j := i - g.running; j < len(g.waitingFor) {
			pod.Role(g.waitingFor[j])
		}
		if i >= g.running+g.waiting-g.gated {
			pod.Gate("example.com/mine")
		}
		pods = append(pods, pod.Obj())
	}
	return pods
}

// says returns annotations from pairs of key and value.
func says(pairs ...string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

func groupOf(names ...string) string {
	var list []string
	for _, name := range names {
		list = append(list, fmt.Sprintf("%q", schedtest.Namespace+"/"+name))
	}
	return "[" + strings.Join(list, ",") + "]"
}

func open(t *testing.T, room string, list []gangOf) *sessiontest.Session {
	t.Helper()
	return openWith(t, conf, room, list)
}

func openWith(t *testing.T, conf, room string, list []gangOf) *sessiontest.Session {
	t.Helper()
	spec := sessiontest.ClusterSpec{Nodes: []*v1.Node{schedtest.MakeNode().Name("n").Capacity(schedtest.Resources{"cpu": room, "memory": "1Gi", "pods": "100"}).Obj()}}
	for _, g := range list {
		spec.PodGroups = append(spec.PodGroups, g.podGroup())
		spec.Pods = append(spec.Pods, g.pods()...)
	}
	cluster := sessiontest.New(spec)
	t.Cleanup(cluster.Close)
	registry := framework.NewRegistry()
	registry.RegisterPlugin(Spec())
	registry.RegisterAction(allocate.New())
	ssn := cluster.Open(registry, conf)
	t.Cleanup(ssn.Close)
	action, _ := vcframework.GetAction("allocate")
	ssn.Run(action)
	return ssn
}

// boundOf returns how many members of each gang were handed over to be bound.
func boundOf(ssn *sessiontest.Session) map[string]int {
	bound := map[string]int{}
	for _, bind := range ssn.Handed() {
		bound[strings.TrimPrefix(string(bind.Task.Job), schedtest.Namespace+"/")]++
	}
	return bound
}

// TestPlacedMembers checks how many members of partially running gangs a session places, for each match policy and
// mode. The names of the cases use Koordinator's words.
func TestPlacedMembers(t *testing.T) {
	policy, mode, groups := gangs.MatchPolicyAnnotation, gangs.ModeAnnotation, gangs.GroupsAnnotation
	xy := says(groups, groupOf("x", "y"))
	tests := map[string]struct {
		room  string
		gangs []gangOf
		want  map[string]int
		// waits is a part of each gang's pending reason.
		waits map[string]string
	}{
		"only-waiting, one waits beside two (G13)":          {"9", []gangOf{{name: "x", minimum: 3, running: 2, waiting: 1, annotations: says(policy, "only-waiting")}}, nil, nil},
		"only-waiting, three wait (G13)":                    {"9", []gangOf{{name: "x", minimum: 3, waiting: 3, annotations: says(policy, "only-waiting")}}, map[string]int{"x": 3}, nil},
		"only-waiting, three wait beside five (G13)":        {"9", []gangOf{{name: "x", minimum: 3, running: 5, waiting: 3, annotations: says(policy, "only-waiting")}}, map[string]int{"x": 3}, nil},
		"only-waiting, room for two of three beside":        {"7", []gangOf{{name: "x", minimum: 3, running: 5, waiting: 3, annotations: says(policy, "only-waiting")}}, nil, nil},
		"only-waiting, a minimum below that of its roles":   {"9", []gangOf{{name: "x", minimum: 2, running: 2, waiting: 2, roles: map[string]int32{"a": 2, "b": 2}, runningAs: []string{"a", "a"}, waitingFor: []string{"a", "a"}, annotations: says(policy, "only-waiting")}}, map[string]int{"x": 2}, nil},
		"waiting-and-running, one beside two (G14)":         {"9", []gangOf{{name: "x", minimum: 3, running: 2, waiting: 1, annotations: says(policy, "waiting-and-running")}}, map[string]int{"x": 1}, nil},
		"waiting-and-running, one beside one (G14)":         {"9", []gangOf{{name: "x", minimum: 3, running: 1, waiting: 1, annotations: says(policy, "waiting-and-running")}}, nil, nil},
		"once-satisfied, one beside one":                    {"9", []gangOf{{name: "x", minimum: 3, running: 1, waiting: 1, satisfied: true, annotations: says(policy, "once-satisfied")}}, map[string]int{"x": 1}, nil},
		"once-satisfied, not yet":                           {"9", []gangOf{{name: "x", minimum: 3, running: 1, waiting: 1, annotations: says(policy, "once-satisfied")}}, nil, nil},
		"once-satisfied, all were lost (G16)":               {"9", []gangOf{{name: "x", minimum: 3, waiting: 1, satisfied: true, annotations: says(policy, "once-satisfied")}}, nil, nil},
		"once-satisfied, all come again (G16)":              {"9", []gangOf{{name: "x", minimum: 3, waiting: 3, satisfied: true, annotations: says(policy, "once-satisfied")}}, map[string]int{"x": 3}, nil},
		"once-satisfied, whichever role is left":            {"9", []gangOf{{name: "x", minimum: 2, running: 1, waiting: 1, satisfied: true, roles: map[string]int32{"ps": 1, "w": 1}, runningAs: []string{"w"}, waitingFor: []string{"w"}, annotations: says(policy, "once-satisfied")}}, map[string]int{"x": 1}, nil},
		"no settings, as without the plugin":                {"9", []gangOf{{name: "x", minimum: 3, running: 1, waiting: 1, satisfied: true}}, nil, nil},
		"once-satisfied, the minimum is raised":             {"4", []gangOf{{name: "x", minimum: 6, running: 3, waiting: 3, satisfied: true, annotations: says(policy, "once-satisfied")}}, map[string]int{"x": 1}, nil},
		"waiting-and-running, the minimum is raised":        {"4", []gangOf{{name: "x", minimum: 6, running: 3, waiting: 3, annotations: says(policy, "waiting-and-running")}}, nil, nil},
		"only-waiting, the minimum is raised":               {"9", []gangOf{{name: "x", minimum: 6, running: 3, waiting: 3, annotations: says(policy, "only-waiting")}}, nil, nil},
		"NonStrict with a minimum of 1, what fits":          {"2", []gangOf{{name: "x", minimum: 1, waiting: 3, annotations: says(mode, "NonStrict")}}, map[string]int{"x": 2}, nil},
		"strict, the fourth of four fits nowhere (G43)":     {"3", []gangOf{{name: "x", minimum: 4, waiting: 6, annotations: says(mode, "Strict")}}, nil, nil},
		"strict, one above the minimum fits nowhere":        {"5", []gangOf{{name: "x", minimum: 4, waiting: 6, annotations: says(mode, "Strict")}}, nil, nil},
		"strict, all fit":                                   {"6", []gangOf{{name: "x", minimum: 4, waiting: 6, annotations: says(mode, "Strict")}}, map[string]int{"x": 6}, nil},
		"strict and satisfied, what fits":                   {"6", []gangOf{{name: "x", minimum: 4, running: 4, waiting: 4, satisfied: true, annotations: says(mode, "Strict")}}, map[string]int{"x": 2}, nil},
		"strict, one beside those that run fits nowhere":    {"5", []gangOf{{name: "x", minimum: 4, running: 2, waiting: 4, annotations: says(mode, "Strict")}}, nil, nil},
		"strict, fewer wait than the minimum asks for":      {"9", []gangOf{{name: "x", minimum: 4, running: 4, waiting: 2, annotations: says(mode, "Strict", policy, "only-waiting")}}, nil, nil},
		"NonStrict, one above the minimum fits nowhere":     {"5", []gangOf{{name: "x", minimum: 4, waiting: 6, annotations: says(mode, "NonStrict")}}, map[string]int{"x": 5}, nil},
		"NonStrict, the minimum does not fit (G44)":         {"3", []gangOf{{name: "x", minimum: 4, waiting: 6, annotations: says(mode, "NonStrict")}}, nil, nil},
		"group, one gang is short of pods (G17)":            {"9", []gangOf{{name: "x", minimum: 2, waiting: 2, annotations: xy}, {name: "y", minimum: 3, waiting: 2, annotations: xy}}, nil, map[string]string{"x": "ns/y has 2 of 3 pods"}},
		"group, both are whole (G17)":                       {"9", []gangOf{{name: "x", minimum: 2, waiting: 2, annotations: xy}, {name: "y", minimum: 3, waiting: 3, annotations: xy}}, map[string]int{"x": 2, "y": 3}, nil},
		"group, room for one of them":                       {"4", []gangOf{{name: "x", minimum: 2, waiting: 2, annotations: xy}, {name: "y", minimum: 3, waiting: 3, annotations: xy}}, nil, map[string]string{"x": "does not fit beside 1 placed gang of its group", "y": "gang ns/x does not fit"}},
		"group, what is above the minima follows":           {"6", []gangOf{{name: "x", minimum: 2, waiting: 3, annotations: xy}, {name: "y", minimum: 2, waiting: 5, annotations: xy}}, map[string]int{"x": 3, "y": 3}, nil},
		"group, a gang that runs beside one that is new":    {"9", []gangOf{{name: "x", minimum: 2, running: 2, waiting: 1, satisfied: true, annotations: xy}, {name: "y", minimum: 3, waiting: 1, annotations: xy}}, map[string]int{"x": 1}, map[string]string{"y": "1"}},
		"group, the new gang is complete (G19)":             {"9", []gangOf{{name: "x", minimum: 2, running: 2, satisfied: true, annotations: xy}, {name: "y", minimum: 3, waiting: 3, annotations: xy}}, map[string]int{"y": 3}, nil},
		"group, the other was deleted after both ran":       {"9", []gangOf{{name: "x", minimum: 2, running: 1, waiting: 1, satisfied: true, annotations: xy}}, map[string]int{"x": 1}, nil},
		"group, the other gang has completed":               {"9", []gangOf{{name: "x", minimum: 2, completed: true, annotations: xy}, {name: "y", minimum: 3, waiting: 3, annotations: xy}}, map[string]int{"y": 3}, nil},
		"group, one gang is not there":                      {"9", []gangOf{{name: "x", minimum: 2, waiting: 2, annotations: xy}}, nil, map[string]string{"x": "gangs that do not exist or belong to another scheduler: ns/y"}},
		"group, the other does not list it":                 {"9", []gangOf{{name: "x", minimum: 2, waiting: 2, annotations: xy}, {name: "y", minimum: 1, waiting: 1}}, map[string]int{"y": 1}, map[string]string{"x": "differs on ns/y; all gangs of a group must list the same gangs"}},
		"group, the other lists other gangs":                {"9", []gangOf{{name: "x", minimum: 2, waiting: 2, annotations: xy}, {name: "y", minimum: 1, waiting: 1, annotations: says(groups, groupOf("y"))}}, map[string]int{"y": 1}, map[string]string{"x": "differs on ns/y; all gangs of a group must list the same gangs"}},
		"group, the other is a strict gang without a group": {"9", []gangOf{{name: "x", minimum: 2, waiting: 2, annotations: xy}, {name: "y", minimum: 1, waiting: 1, annotations: says(mode, "Strict")}}, map[string]int{"y": 1}, map[string]string{"x": "differs on ns/y; all gangs of a group must list the same gangs"}},
		"group, the list leaves the gang itself out (G8)":   {"9", []gangOf{{name: "z", minimum: 3, waiting: 3, annotations: xy}}, nil, map[string]string{"z": "must be a list that contains the gang itself, ns/z"}},
		"group that cannot be read is not placed (G10)":     {"9", []gangOf{{name: "x", minimum: 2, waiting: 2, annotations: says(groups, "[ns/x]")}}, nil, map[string]string{"x": "a JSON list of"}},
		"a strict gang sends its group back":                {"5", []gangOf{{name: "x", minimum: 2, waiting: 4, annotations: says(groups, groupOf("x", "y"), mode, "Strict")}, {name: "y", minimum: 2, waiting: 2, annotations: xy}}, nil, nil},
		"groups beside each other":                          {"5", []gangOf{{name: "a", minimum: 1, waiting: 1, annotations: says(groups, groupOf("a", "b"))}, {name: "b", minimum: 5, waiting: 5, annotations: says(groups, groupOf("a", "b"))}, {name: "x", minimum: 2, waiting: 2, annotations: xy}, {name: "y", minimum: 3, waiting: 3, annotations: xy}}, map[string]int{"x": 2, "y": 3}, map[string]string{"a": "does not fit beside 1 placed gang of its group", "b": "gang ns/a does not fit"}},
		"a member too large for the node in one of a group": {"9", []gangOf{{name: "x", minimum: 2, waiting: 2, annotations: xy}, {name: "y", minimum: 1, waiting: 1, large: "10", annotations: xy}}, nil, map[string]string{"x": "gang ns/y does not fit", "y": "a member requests more than any node has"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ssn := open(t, test.room, test.gangs)
			want := test.want
			if want == nil {
				want = map[string]int{}
			}
			if diff := cmp.Diff(want, boundOf(ssn)); diff != "" {
				t.Errorf("members handed over to be bound, by gang (-want +got):\n%s", diff)
			}
			for gang, text := range test.waits {
				job := ssn.Jobs[api.JobID(schedtest.Namespace+"/"+gang)]
				reason, _ := ssn.PendingReason(job.UID)
				if verdict := ssn.JobValid(job); verdict != nil && !verdict.Pass {
					reason.Message = verdict.Message
				}
				if !strings.Contains(reason.Message, text) {
					t.Errorf("gang %s waits for %q, want %q in it", gang, reason.Message, text)
				}
			}
		})
	}
}

// TestMessagesRevealNoGangOfAnotherNamespace checks that messages do not reveal whether a gang of another namespace
// exists.
func TestMessagesRevealNoGangOfAnotherNamespace(t *testing.T) {
	messages := func(there ...*v1beta1.PodGroup) string {
		spy := gangOf{name: "spy", minimum: 1, waiting: 1, annotations: says(gangs.GroupsAnnotation, `["ns/spy","theirs/secret"]`)}
		cluster := sessiontest.New(sessiontest.ClusterSpec{PodGroups: append(there, spy.podGroup()), Pods: spy.pods()})
		t.Cleanup(cluster.Close)
		registry := framework.NewRegistry()
		registry.RegisterPlugin(Spec())
		registry.RegisterAction(allocate.New())
		ssn := cluster.Open(registry, conf)
		t.Cleanup(ssn.Close)
		for _, pg := range there {
			if ssn.Jobs[api.JobID(pg.Namespace+"/"+pg.Name)] == nil {
				t.Errorf("the session does not have %s", pg.Name)
			}
		}
		action, _ := vcframework.GetAction("allocate")
		ssn.Run(action)
		job := ssn.Jobs["ns/spy"]
		reason, _ := ssn.PendingReason(job.UID)
		return fmt.Sprintln(ssn.JobValid(job).Message, reason, job.JobFitErrors, job.PodGroup.Status.Phase, texts(job.PodGroup.Status.Conditions), ssn.Explanation(job.UID) != nil)
	}
	secret := func() *schedtest.PodGroupBuilder { return schedtest.MakePodGroup().Namespace("theirs").Name("secret") }
	without := messages()
	if !strings.Contains(without, "theirs/secret") {
		t.Errorf("the messages are %q, want theirs/secret in it", without)
	}
	for name, with := range map[string]*v1beta1.PodGroup{
		"without settings":   secret().Obj(),
		"with settings":      secret().Annotation(gangs.ModeAnnotation, "Strict").Obj(),
		"of another group":   secret().Annotation(gangs.GroupsAnnotation, `["theirs/secret","theirs/other"]`).Obj(),
		"of a larger group":  secret().Annotation(gangs.GroupsAnnotation, `["ns/spy","theirs/secret","theirs/other"]`).Obj(),
		"of a broken list":   secret().Annotation(gangs.GroupsAnnotation, `["ns/spy","theirs/secret"`).Obj(),
		"that has completed": secret().Phase(v1beta1.PodGroupCompleted).Obj(),
		"that is satisfied":  satisfied(secret().Annotation(gangs.ModeAnnotation, "Strict").Obj()),
	} {
		if diff := cmp.Diff(without, messages(with)); diff != "" {
			t.Errorf("messages without the other gang (-) and with one %s (+):\n%s", name, diff)
		}
	}
	consenting := messages(secret().MinMember(3).Annotation(gangs.GroupsAnnotation, `["theirs/secret","ns/spy"]`).Obj())
	if !strings.Contains(consenting, "theirs/secret has 0 of 3 pods") {
		t.Errorf("with a gang that lists the same gangs, the messages are %q", consenting)
	}
}

// texts returns the conditions without their times.
func texts(conditions []scheduling.PodGroupCondition) (all []string) {
	for _, c := range conditions {
		all = append(all, fmt.Sprint(c.Type, c.Status, c.Reason, c.Message))
	}
	return all
}

// satisfied adds the condition that the PodGroup's gang reached its minimum.
func satisfied(pg *v1beta1.PodGroup) *v1beta1.PodGroup {
	pg.Status.Conditions = []v1beta1.PodGroupCondition{{Type: v1beta1.PodGroupConditionType(Satisfied), Status: v1.ConditionTrue, Reason: "GangSatisfied"}}
	return pg
}

// TestGangGroup checks that the members of all gangs of a group get the same gang group, with the mode and match policy
// of each gang.
func TestGangGroup(t *testing.T) {
	xy := groupOf("x", "y")
	ssn := open(t, "9", []gangOf{
		{name: "x", minimum: 2, waiting: 2, annotations: says(gangs.GroupsAnnotation, xy, gangs.ModeAnnotation, "Strict")},
		{name: "y", minimum: 1, waiting: 1, annotations: says(gangs.GroupsAnnotation, xy, gangs.MatchPolicyAnnotation, "only-waiting")},
		{name: "z", minimum: 1, waiting: 1, annotations: says(gangs.ModeAnnotation, "NonStrict")},
		{name: "plain", minimum: 1, waiting: 1},
	})
	group := &binding.GangGroup{ID: "ns/x,ns/y", Gangs: []binding.GangTerms{{Gang: "ns/x", Strict: true}, {Gang: "ns/y", Count: binding.CountNone}}}
	want := map[string]*binding.GangGroup{
		"ns/x-0": group, "ns/x-1": group, "ns/y-0": group, "ns/z-0": {ID: "ns/z", Gangs: []binding.GangTerms{{Gang: "ns/z"}}}, "ns/plain-0": nil,
	}
	got := map[string]*binding.GangGroup{}
	for name, bind := range ssn.Handed() {
		got[name] = bind.GangGroup
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("gang groups of the members (-want +got):\n%s", diff)
	}
}

// TestAGroupFillsItsQueue checks that a group may use all resources that its queue has left. A gang that was placed
// with its group is not scheduled again.
func TestAGroupFillsItsQueue(t *testing.T) {
	xy := says(gangs.GroupsAnnotation, groupOf("x", "y"))
	ssn := openWith(t, conf+"  - name: proportion\n", "5", []gangOf{
		{name: "x", minimum: 2, waiting: 2, annotations: xy}, {name: "y", minimum: 3, waiting: 3, annotations: xy}, {name: "z", minimum: 1, waiting: 1},
	})
	if diff := cmp.Diff(map[string]int{"x": 2, "y": 3}, boundOf(ssn)); diff != "" {
		t.Errorf("members handed over to be bound, by gang (-want +got):\n%s", diff)
	}
}

// TestAGroupThatIsTooLarge checks that a group with too many gangs is invalid and that none of its members is placed.
func TestAGroupThatIsTooLarge(t *testing.T) {
	for _, n := range []int{gangs.MaxGroup + 1, 2500} {
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf("trainer-%05d", i)
		}
		ssn := open(t, "9", []gangOf{{name: names[0], minimum: 1, waiting: 1, annotations: says(gangs.GroupsAnnotation, groupOf(names...))}})
		if diff := cmp.Diff(map[string]int{}, boundOf(ssn)); diff != "" {
			t.Errorf("bound members of a group of %d gangs (-want +got):\n%s", n, diff)
		}
		job := ssn.Jobs[api.JobID(schedtest.Namespace+"/"+names[0])]
		if valid := ssn.JobValid(job); valid == nil || valid.Reason != gangs.InvalidGroup || !strings.Contains(valid.Message, "must be a list of at most 100 gangs") {
			t.Errorf("the verdict on a group of %d gangs is %v", n, valid)
		}
	}
}

// TestInvalidSettingsAreReported checks that the PodGroup reports invalid settings, with the values used instead, until
// the settings are corrected.
func TestInvalidSettingsAreReported(t *testing.T) {
	ssn := open(t, "9", []gangOf{
		{name: "wrong", minimum: 1, waiting: 1, annotations: says(gangs.ModeAnnotation, "strict", gangs.WaitingTimeAnnotation, "0s")},
		{name: "right", minimum: 1, waiting: 1, annotations: says(gangs.ModeAnnotation, "Strict")},
	})
	messages := func(name string) (texts []string) {
		for _, c := range ssn.Jobs[api.JobID(schedtest.Namespace+"/"+name)].PodGroup.Status.Conditions {
			if c.Type == InvalidSettings {
				texts = append(texts, c.Message)
			}
		}
		return texts
	}
	if diff := cmp.Diff([]string(nil), messages("right")); diff != "" {
		t.Errorf("conditions of a PodGroup without invalid settings (-want +got):\n%s", diff)
	}
	texts := messages("wrong")
	if len(texts) != 1 || !strings.Contains(texts[0], `mode: invalid value "strict", must be Strict or NonStrict; using NonStrict`) ||
		!strings.Contains(texts[0], `waiting-time: invalid value "0s", must be a positive duration such as 90s; using 10m0s`) {
		t.Errorf("conditions of a PodGroup with invalid settings: %q", texts)
	}
}

// TestInvalidSettingsAreOneEvent checks that an invalid setting is recorded as an event once, until the message
// changes.
func TestInvalidSettingsAreOneEvent(t *testing.T) {
	group := schedtest.MakePodGroup().Name("a").MinMember(4).Phase(v1beta1.PodGroupPending).Annotation(gangs.ModeAnnotation, "strict")
	in(t, narrow([]*schedtest.PodGroupBuilder{group}, members(small(), "a", 3)...), limits, func(t *testing.T, w *simulation) {
		recorder := record.NewFakeRecorder(1000)
		w.cluster.Cache().Recorder = recorder
		w.pass(3*time.Second, time.Second)
		var events []string
		for len(recorder.Events) > 0 {
			if event := <-recorder.Events; strings.Contains(event, invalidReason) {
				events = append(events, event)
			}
		}
		if len(events) != 1 || !strings.Contains(events[0], `mode: invalid value "strict", must be Strict or NonStrict; using NonStrict`) {
			t.Errorf("events of three sessions: %q, want one", events)
		}
	})
}

// TestSatisfied checks which gangs are satisfied: gangs that reached their minimum, together with their group, until
// the last member is gone.
func TestSatisfied(t *testing.T) {
	once, xy := says(gangs.ModeAnnotation, "NonStrict"), says(gangs.GroupsAnnotation, groupOf("x", "y"))
	tests := map[string]struct {
		gangs []gangOf
		want  []string
	}{
		"minimum reached":                {[]gangOf{{name: "x", minimum: 3, running: 3, annotations: once}}, []string{"x"}},
		"not reached":                    {[]gangOf{{name: "x", minimum: 3, running: 2, annotations: once}}, nil},
		"reached before":                 {[]gangOf{{name: "x", minimum: 3, running: 1, satisfied: true, annotations: once}}, []string{"x"}},
		"no gang is left":                {[]gangOf{{name: "x", minimum: 3, waiting: 3, satisfied: true, annotations: once}}, nil},
		"another policy now":             {[]gangOf{{name: "x", minimum: 3, running: 3, satisfied: true, annotations: says(gangs.MatchPolicyAnnotation, "only-waiting")}}, nil},
		"no settings":                    {[]gangOf{{name: "x", minimum: 3, running: 3}}, nil},
		"group, one of two":              {[]gangOf{{name: "x", minimum: 1, running: 1, annotations: xy}, {name: "y", minimum: 2, running: 1, waiting: 1, annotations: xy}}, nil},
		"group, both":                    {[]gangOf{{name: "x", minimum: 1, running: 1, annotations: xy}, {name: "y", minimum: 2, running: 2, annotations: xy}}, []string{"x", "y"}},
		"group, one was and one is":      {[]gangOf{{name: "x", minimum: 2, running: 1, satisfied: true, annotations: xy}, {name: "y", minimum: 2, running: 2, annotations: xy}}, []string{"x", "y"}},
		"group, the other is not there":  {[]gangOf{{name: "x", minimum: 1, running: 1, annotations: xy}}, nil},
		"group, the other has completed": {[]gangOf{{name: "x", minimum: 1, running: 1, annotations: xy}, {name: "y", minimum: 2, completed: true, annotations: xy}}, []string{"x"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ssn := open(t, "9", test.gangs)
			var got []string
			for _, job := range ssn.Jobs {
				for _, c := range job.PodGroup.Status.Conditions {
					if c.Type == Satisfied {
						got = append(got, job.Name)
					}
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("gangs that are satisfied (-want +got):\n%s", diff)
			}
		})
	}
}

func TestArguments(t *testing.T) {
	for name, test := range map[string]struct {
		args framework.Arguments
		want string
	}{
		"none":              {nil, ""},
		"timeout":           {framework.Arguments{"defaultTimeout": "90s"}, ""},
		"timeout of zero":   {framework.Arguments{"defaultTimeout": "0s"}, `defaultTimeout: found "0s", want a positive duration such as 600s`},
		"timeout of a year": {framework.Arguments{"defaultTimeout": "1y"}, `defaultTimeout: found "1y", want a positive duration such as 600s`},
	} {
		_, err := Spec().Load(test.args)
		if got := fmt.Sprint(err); (err != nil || test.want != "") && got != test.want {
			t.Errorf("%s: %s, want %q", name, got, test.want)
		}
	}
}
