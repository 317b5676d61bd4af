// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"sync/atomic"
	"testing"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// TestLastLook checks the pre-commit check: the findings of a step may have changed while the gang waited for its
// slowest member.
func TestLastLook(t *testing.T) {
	tests := map[string]struct {
		minimum int
		look    func(task *api.TaskInfo) error
		want    []string
	}{
		"all is as it was": {minimum: 3, look: func(*api.TaskInfo) error { return nil }, want: []string{"a bind bound", "a bind bound", "a bind bound"}},
		"one is refused and the gang needs it": {
			minimum: 3, look: refusing("p1"),
			want: []string{"a -a released(no quorum)", "a -a released(a failed)", "a -a released(no quorum)"},
		},
		"one is refused beyond the minimum": {
			minimum: 2, look: refusing("p1"), want: []string{"a bind bound", "a -a released(a failed)", "a bind bound"},
		},
		"a panic refuses": {
			minimum: 2, look: func(task *api.TaskInfo) error {
				if task.Name == "p1" {
					panic("told to")
				}
				return nil
			},
			want: []string{"a bind bound", "a -a released(a panicked)", "a bind bound"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *harness) {
				var waited atomic.Bool // set when the slowest member is about to pass
				looking(t, w, tt.minimum, 20*time.Second, func(task *api.TaskInfo) error {
					if !waited.Load() {
						return nil
					}
					return tt.look(task)
				})
				time.Sleep(20*time.Second - 1)
				waited.Store(true)
				w.drain(t)
				w.wantTraces(t, tt.want...)
			})
		})
	}
}

// TestLastLookAfterTheWaitForASlot checks that the pre-commit check runs after the wait for a slot, so only earlier
// Bindings of the gang come between it and a Binding.
func TestLastLookAfterTheWaitForASlot(t *testing.T) {
	bubble(t, func(t *testing.T, w *harness) {
		w.mustSubmit(t, "ns/first", "a", 1, script{binds: []reply{{takes: 10 * time.Second}}})
		var left atomic.Bool
		looking(t, w, 3, slotTime/2, func(*api.TaskInfo) error {
			if left.Load() {
				return errStep
			}
			return nil
		})
		time.Sleep(slotTime - 1) // All members have passed and wait for the slot.
		left.Store(true)
		w.drain(t)
		w.wantTraces(t, "bind bound", "a -a released(a failed)", "a -a released(a failed)", "a -a released(a failed)")
	}, func(o *options) { o.apiCalls = 1 })
}

func refusing(pod string) func(*api.TaskInfo) error {
	return func(task *api.TaskInfo) error {
		if task.Name == pod {
			return errStep
		}
		return nil
	}
}

// looking submits a gang of three members with a step that has the pre-commit check look. The step of the last member
// takes the duration in slowest.
func looking(t *testing.T, w *harness, minimum int, slowest time.Duration, look func(*api.TaskInfo) error) {
	t.Helper()
	w.setMinimum(gang, minimum)
	var members []*Member
	for i, takes := range []time.Duration{0, 0, slowest} {
		name := "p" + string(rune('0'+i))
		m := w.member(gang, name, "node-"+name, script{steps: []act{{plugin: "a", takes: takes}}})
		m.Steps[0].PreCommitCheck = func(task *api.TaskInfo, _ string) error { return look(task) }
		members = append(members, m)
	}
	if err := w.submit(gang, members...); err != nil {
		t.Fatal(err)
	}
}
