// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// editedGang is gang x, whose PodGroup its user changes.
type editedGang struct {
	*simulation
	podGroup *v1beta1.PodGroup
}

func (w *editedGang) write(change func(*v1beta1.PodGroup)) {
	next := w.podGroup.DeepCopy()
	change(next)
	next.ResourceVersion += "1"
	w.cluster.Cache().UpdatePodGroupV1beta1(w.podGroup, next)
	w.podGroup = next
	w.session()
	w.session()
}

func (w *editedGang) annotate(pairs ...string) {
	w.write(func(pg *v1beta1.PodGroup) {
		for i := 0; i < len(pairs); i += 2 {
			pg.Annotations[pairs[i]] = pairs[i+1]
		}
	})
}

func (w *editedGang) running(gang string) int { return len(w.job(gang).TaskStatusIndex[api.Running]) }

// changing runs the test with gang x of three pending pods and a minimum of 2, gang y of one small pod, and room for
// two members of x.
func changing(t *testing.T, test func(*testing.T, *editedGang), pairs ...string) {
	t.Helper()
	x, y := schedtest.MakePodGroup().Name("x").MinMember(2), schedtest.MakePodGroup().Name("y").MinMember(1).Annotation(gangs.GroupsAnnotation, `["ns/y"]`)
	for i := 0; i < len(pairs); i += 2 {
		x.Annotation(pairs[i], pairs[i+1])
	}
	obj := x.Obj()
	obj.ResourceVersion = "1"
	w := sessiontest.ClusterSpec{
		Nodes:     []*v1.Node{holds("5").Name("n").Obj()},
		PodGroups: []*v1beta1.PodGroup{obj, y.Obj()},
		Pods:      append(members(schedtest.MakePod().Req(cores("2")), "x", 3), members(schedtest.MakePod().Req(cores("1")), "y", 1)...),
	}
	in(t, w, strings.ReplaceAll(sessionsConf, "{ARGUMENTS}", "{}"), func(t *testing.T, w *simulation) {
		w.pass(2*time.Second, time.Second)
		test(t, &editedGang{simulation: w, podGroup: obj})
	})
}

func (w *editedGang) wants(t *testing.T, when string, x int) {
	t.Helper()
	if got := w.running("x"); got != x {
		t.Errorf("%s: %d members of x run, want %d", when, got, x)
	}
}

// TestSettingsChangeWhileItWaits checks the effect of changing a gang's settings while the gang waits, as the plugin's
// page states it.
func TestSettingsChangeWhileItWaits(t *testing.T) {
	strict := []string{gangs.ModeAnnotation, "Strict"}
	t.Run("the mode", func(t *testing.T) {
		changing(t, func(t *testing.T, w *editedGang) {
			w.wants(t, "strict, with room for two of three", 0)
			w.annotate(gangs.ModeAnnotation, "NonStrict")
			w.wants(t, "no longer strict", 2)
		}, strict...)
	})
	t.Run("the minimum", func(t *testing.T) {
		changing(t, func(t *testing.T, w *editedGang) {
			w.write(func(pg *v1beta1.PodGroup) { pg.Spec.MinMember = 3 })
			w.remove("y-0")
			w.pass(2*time.Second, time.Second)
			w.wants(t, "a minimum of three, with room for two", 0)
			w.write(func(pg *v1beta1.PodGroup) { pg.Spec.MinMember, pg.Annotations[gangs.ModeAnnotation] = 2, "NonStrict" })
			w.wants(t, "a minimum of two", 2)
		}, strict...)
	})
	t.Run("the group", func(t *testing.T) {
		changing(t, func(t *testing.T, w *editedGang) {
			w.wants(t, "y does not list x", 0)
			verdict := w.verdict("x")
			if verdict == nil || verdict.Reason != gangs.InvalidGroup || !strings.Contains(verdict.Message, "differs on ns/y; all gangs of a group must list the same gangs") {
				t.Errorf("the verdict on the gang is %+v", verdict)
			}
			w.annotate(gangs.GroupsAnnotation, `["ns/x"]`)
			w.wants(t, "it is alone", 2)
		}, gangs.GroupsAnnotation, `["ns/x","ns/y"]`, gangs.ModeAnnotation, "NonStrict")
	})
	t.Run("an invalid mode", func(t *testing.T) {
		changing(t, func(t *testing.T, w *editedGang) {
			before := w.condition("x", InvalidSettings)
			if before.Status != v1.ConditionTrue {
				t.Error("an invalid mode is not reported on the PodGroup")
			}
			w.write(func(pg *v1beta1.PodGroup) {
				pg.Annotations[gangs.ModeAnnotation] = "Strict"
				pg.Status.Conditions = []v1beta1.PodGroupCondition{{Type: v1beta1.PodGroupConditionType(InvalidSettings), Status: before.Status, Message: before.Message}}
			})
			if now := w.condition("x", InvalidSettings); now.Type != "" {
				t.Errorf("an invalid mode is still reported after it was corrected: %s", now.Message)
			}
		}, gangs.ModeAnnotation, "strict")
	})
	t.Run("the policy", func(t *testing.T) {
		changing(t, func(t *testing.T, w *editedGang) {
			w.wants(t, "it has its minimum", 2)
			w.remove("x-0")
			w.annotate(gangs.MatchPolicyAnnotation, "only-waiting")
			w.wants(t, "the one that waits is not two", 1)
			w.annotate(gangs.MatchPolicyAnnotation, "waiting-and-running")
			w.wants(t, "with the one that runs it is", 2)
		}, gangs.ModeAnnotation, "NonStrict")
	})
}

// verdict runs a session and returns its verdict: whether the gang may be placed.
func (w *editedGang) verdict(gang string) (verdict *api.ValidateResult) {
	w.session(func(ssn *sessiontest.Session) {
		verdict = ssn.JobValid(ssn.Jobs[api.JobID(schedtest.Namespace+"/"+gang)])
	})
	return verdict
}

// TestConditionsEndWithTheSettings checks that a gang whose user removes all settings loses the conditions about them,
// and keeps its other conditions.
func TestConditionsEndWithTheSettings(t *testing.T) {
	group := waits("a").Obj()
	given := narrow(nil, members(small(), "a", 3)...)
	given.PodGroups = append(given.PodGroups, group)
	in(t, given, limits, func(t *testing.T, w *simulation) {
		kinds := []scheduling.PodGroupConditionType{TimeLimit, InvalidSettings, Satisfied, Whole, Reserved}
		next := group.DeepCopy()
		next.Annotations, next.ResourceVersion = nil, "changed"
		for _, kind := range kinds {
			next.Status.Conditions = append(next.Status.Conditions, v1beta1.PodGroupCondition{Type: v1beta1.PodGroupConditionType(kind), Status: v1.ConditionTrue})
		}
		next.Status.Conditions = append(next.Status.Conditions, v1beta1.PodGroupCondition{Type: v1beta1.PodGroupScheduled, Status: v1.ConditionTrue})
		w.cluster.Cache().UpdatePodGroupV1beta1(group, next)
		w.session()
		for _, kind := range append(kinds, scheduling.PodGroupScheduled) {
			if found, want := w.condition("a", kind).Type == kind, kind == scheduling.PodGroupScheduled; found != want {
				t.Errorf("the gang has condition %s: %t, want %t", kind, found, want)
			}
		}
	})
}
