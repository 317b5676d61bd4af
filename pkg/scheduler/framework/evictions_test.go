// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"testing"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// TestWhatActionsEvictIsHeldWhereGangsAreGrouped, until the session closes; what a plugin evicts by itself is sent at once.
func TestWhatActionsEvictIsHeldWhereGangsAreGrouped(t *testing.T) {
	for action, atOnce := range map[string]int{"preempt": 0, "": 1} {
		t.Run("action "+action, func(t *testing.T) {
			r := NewRegistry()
			ssn := open(t, r, newKeeper(t), ProfileInput{})
			ssn.AddUnitFn(func(*api.JobInfo) *binding.Unit {
				return &binding.Unit{ID: "u", Gangs: []binding.GangTerms{{Gang: "ns/g"}, {Gang: "ns/h"}}}
			})
			sent := 0
			ssn.AddEvictedFn(func(Eviction) { sent++ })
			ssn.Action = action
			for _, task := range ssn.Jobs["ns/g"].Tasks {
				if err := ssn.Evict(task, "reason"); err != nil {
					t.Fatal(err)
				}
				break
			}
			if sent != atOnce {
				t.Errorf("%d evictions are sent at once, want %d", sent, atOnce)
			}
			if r.CloseSession(ssn); sent != 1 {
				t.Errorf("%d evictions are sent when the session is closed, want 1", sent)
			}
		})
	}
}
