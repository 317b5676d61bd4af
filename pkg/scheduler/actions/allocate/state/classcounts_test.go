// SPDX-License-Identifier: Apache-2.0

package state

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
)

// TestClassCounts: Only tasks at the beginning of the list are subtracted from the counts. In other cases the rest is
// counted again.
func TestClassCounts(t *testing.T) {
	classes := map[api.TaskID]*feasible.TaskClass{}
	class := func(task *api.TaskInfo) *feasible.TaskClass { return classes[task.UID] }
	large, small := &feasible.TaskClass{}, &feasible.TaskClass{}
	var tasks []*api.TaskInfo
	for i, k := range []*feasible.TaskClass{large, small, large, small, small} {
		task := &api.TaskInfo{UID: api.TaskID(rune('a' + i))}
		classes[task.UID] = k
		tasks = append(tasks, task)
	}
	tests := map[string]struct {
		left         []*api.TaskInfo
		counted      bool
		large, small int
	}{
		"all":                       {left: tasks, counted: true, large: 2, small: 3},
		"without the first":         {left: tasks[1:], counted: true, large: 1, small: 3},
		"the last class":            {left: tasks[3:], counted: true, small: 2},
		"some taken from within":    {left: slices.Delete(slices.Clone(tasks), 1, 2)},
		"others of the same number": {left: slices.Clone(tasks)},
		"more than there were":      {left: append(slices.Clone(tasks), tasks[0])},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newClassCounts(class, tasks)
			if counted := c.countOff(class, tt.left); counted != tt.counted {
				t.Fatalf("counted off: %t", counted)
			}
			if !tt.counted {
				return
			}
			want := map[*feasible.TaskClass]int{large: tt.large, small: tt.small}
			if tt.large == 0 {
				delete(want, large)
			}
			if diff := cmp.Diff(want, c.counts); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
		})
	}
}
