// SPDX-License-Identifier: Apache-2.0

package statuswriter

import (
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/fields"
)

// TestSameStatusComparesEachField checks that sameStatus compares each field of a PodGroup's status, and each field of
// a condition except its time and its transition ID.
func TestSameStatusComparesEachField(t *testing.T) {
	walk := fields.Walk{Whole: map[reflect.Type][]fields.Value{reflect.TypeFor[metav1.Time](): {{Value: metav1.Time{}}, {Value: metav1.Unix(1, 0)}}}}
	status := func() (s scheduling.PodGroupStatus) {
		walk.Fill(&s)
		return s
	}
	if !sameStatus(status(), status()) || !sameStatus(scheduling.PodGroupStatus{}, scheduling.PodGroupStatus{Conditions: []scheduling.PodGroupCondition{}}) {
		t.Error("equal statuses differ")
	}
	changed, changes := status(), 0
	walk.Each(&changed, func(path string, do, undo func()) {
		want := strings.HasSuffix(path, ".LastTransitionTime") || strings.HasSuffix(path, ".TransitionID")
		do()
		if same := sameStatus(status(), changed); same != want || sameStatus(changed, status()) != want {
			t.Errorf("a status with another %s is the same: %t, want %t", path, same, want)
		}
		undo()
		changes++
	})
	if most := reflect.TypeFor[scheduling.PodGroupStatus]().NumField() + reflect.TypeFor[scheduling.PodGroupCondition]().NumField(); changes < most {
		t.Errorf("%d fields were changed, want at least %d", changes, most)
	}
}
