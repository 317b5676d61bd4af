// SPDX-License-Identifier: Apache-2.0

package statuswriter

import (
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
)

// TestSameStatusComparesEachField checks that sameStatus compares each field of a PodGroup's status, and each field of
// a condition except its time and its transition ID.
func TestSameStatusComparesEachField(t *testing.T) {
	status := func() scheduling.PodGroupStatus {
		return scheduling.PodGroupStatus{Conditions: []scheduling.PodGroupCondition{{Type: "a"}}}
	}
	if !sameStatus(status(), status()) || !sameStatus(scheduling.PodGroupStatus{}, scheduling.PodGroupStatus{Conditions: []scheduling.PodGroupCondition{}}) {
		t.Error("equal statuses differ")
	}
	check := func(name string, same bool, change func(*scheduling.PodGroupStatus)) {
		changed := status()
		if change(&changed); sameStatus(status(), changed) != same || sameStatus(changed, status()) != same {
			t.Errorf("a status with another %s is the same: %t, want %t", name, !same, same)
		}
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[scheduling.PodGroupStatus]()) {
		check(field.Name, false, func(s *scheduling.PodGroupStatus) { alter(reflect.ValueOf(s).Elem().FieldByIndex(field.Index)) })
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[scheduling.PodGroupCondition]()) {
		same := field.Name == "LastTransitionTime" || field.Name == "TransitionID"
		check("condition's "+field.Name, same, func(s *scheduling.PodGroupStatus) {
			alter(reflect.ValueOf(&s.Conditions[0]).Elem().FieldByIndex(field.Index))
		})
	}
}

// alter gives the field another value.
func alter(field reflect.Value) {
	switch field.Kind() {
	case reflect.String:
		field.SetString("other")
	case reflect.Slice:
		field.SetZero()
	case reflect.Struct:
		field.Set(reflect.ValueOf(metav1.NewTime(time.Unix(1, 0))))
	default:
		field.SetInt(7)
	}
}
