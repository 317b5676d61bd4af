// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
)

// TestSet checks that Set changes only the condition of its type, and that a condition keeps its time until its text
// changes.
func TestSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(90 * time.Millisecond)
		now := metav1.NewTime(time.Now().Truncate(time.Second))
		long := metav1.NewTime(now.Add(-time.Hour))
		known := scheduling.PodGroupCondition{Type: "Known", Status: v1.ConditionTrue, Reason: "r", Message: "m", LastTransitionTime: long, TransitionID: "before"}
		set := func(reason, message string, since metav1.Time) scheduling.PodGroupCondition {
			return scheduling.PodGroupCondition{Type: "Known", Status: v1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: since, TransitionID: "session"}
		}
		first, last := scheduling.PodGroupCondition{Type: "First"}, scheduling.PodGroupCondition{Type: "Last"}
		untrue := known
		untrue.Status = v1.ConditionFalse
		tests := map[string]struct {
			has             []scheduling.PodGroupCondition
			reason, message string
			isNew           bool
			want            []scheduling.PodGroupCondition
		}{
			"no condition":    {nil, "r", "m", true, []scheduling.PodGroupCondition{set("r", "m", now)}},
			"another type":    {[]scheduling.PodGroupCondition{first}, "r", "m", true, []scheduling.PodGroupCondition{first, set("r", "m", now)}},
			"the same":        {[]scheduling.PodGroupCondition{known}, "r", "m", false, []scheduling.PodGroupCondition{set("r", "m", long)}},
			"another reason":  {[]scheduling.PodGroupCondition{known, last}, "s", "m", true, []scheduling.PodGroupCondition{set("s", "m", now), last}},
			"another message": {[]scheduling.PodGroupCondition{first, known}, "r", "n", true, []scheduling.PodGroupCondition{first, set("r", "n", now)}},
			"another status":  {[]scheduling.PodGroupCondition{untrue}, "r", "m", true, []scheduling.PodGroupCondition{set("r", "m", now)}},
		}
		for name, tt := range tests {
			status := &scheduling.PodGroupStatus{Conditions: tt.has}
			if isNew := conditions.Set(status, "session", "Known", tt.reason, tt.message); isNew != tt.isNew {
				t.Errorf("%s: the condition is new: %t, want %t", name, isNew, tt.isNew)
			}
			if diff := cmp.Diff(tt.want, status.Conditions); diff != "" {
				t.Errorf("%s: conditions (-want +got):\n%s", name, diff)
			}
			if conditions.Drop(status, "Known", "Other"); conditions.Find(status, "Known") != nil || len(status.Conditions) != len(tt.want)-1 {
				t.Errorf("%s: after the condition was removed, the conditions are %v", name, status.Conditions)
			}
		}
	})
}

// TestDropKeepsSharedConditions checks that Drop does not change conditions that a copy of the status shares.
func TestDropKeepsSharedConditions(t *testing.T) {
	status := scheduling.PodGroupStatus{Conditions: []scheduling.PodGroupCondition{{Type: "A"}, {Type: "B"}}}
	shared := status
	conditions.Drop(&status, "A")
	if diff := cmp.Diff([]scheduling.PodGroupCondition{{Type: "A"}, {Type: "B"}}, shared.Conditions); diff != "" {
		t.Errorf("conditions of the copy (-want +got):\n%s", diff)
	}
}

// TestKeepTimes checks that only a condition whose text is the same keeps the time that it had before.
func TestKeepTimes(t *testing.T) {
	long, now := metav1.NewTime(time.Unix(1, 0)), metav1.NewTime(time.Unix(100, 0))
	at := func(since metav1.Time, message string) scheduling.PodGroupCondition {
		return scheduling.PodGroupCondition{Type: scheduling.PodGroupConditionType("Of" + message[:1]), Message: message, LastTransitionTime: since}
	}
	before := scheduling.PodGroupStatus{Conditions: []scheduling.PodGroupCondition{at(long, "a"), at(long, "b")}}
	status := scheduling.PodGroupStatus{Conditions: []scheduling.PodGroupCondition{at(now, "b2"), at(now, "a"), at(now, "c")}}
	conditions.KeepTimes(&status, before)
	if diff := cmp.Diff([]scheduling.PodGroupCondition{at(now, "b2"), at(long, "a"), at(now, "c")}, status.Conditions); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}
