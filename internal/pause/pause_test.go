// SPDX-License-Identifier: Apache-2.0

package pause

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestFor(t *testing.T) {
	tests := map[string]struct {
		wait, ends time.Duration
		want       bool
		took       time.Duration
	}{
		"passes":           {wait: time.Second, ends: time.Minute, want: true, took: time.Second},
		"is cut short":     {wait: time.Minute, ends: time.Second, took: time.Second},
		"nothing to wait":  {ends: time.Minute, want: true},
		"less than that":   {wait: -time.Second, ends: time.Minute, want: true},
		"ended before all": {wait: time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.ends)
				defer cancel()
				began := time.Now()
				if got := For(ctx, tt.wait); got != tt.want {
					t.Errorf("For(%v) = %t, want %t", tt.wait, got, tt.want)
				}
				if took := time.Since(began); took != tt.took {
					t.Errorf("For(%v) took %v, want %v", tt.wait, took, tt.took)
				}
			})
		})
	}
}

// TestManyPausesOfNothing checks that many concurrent pauses of 0 or less do not crash the runtime. Under the race
// detector it crashed in three of four runs when each pause created a timer.
func TestManyPausesOfNothing(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			var all sync.WaitGroup
			for range 200 {
				all.Go(func() {
					for range 10 {
						For(t.Context(), 0)
						For(t.Context(), -time.Second)
					}
				})
			}
			all.Wait()
		})
	}
}
