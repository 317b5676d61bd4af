// SPDX-License-Identifier: Apache-2.0

package app

import (
	"runtime/debug"
	"testing"
)

// TestGOGCIsKept checks that GOGC from the environment takes precedence over the scheduler's own setting.
func TestGOGCIsKept(t *testing.T) {
	const before = 77
	old := debug.SetGCPercent(before)
	t.Cleanup(func() { debug.SetGCPercent(old) })
	for gogc, kept := range map[string]bool{"": false, "200": true} {
		t.Setenv("GOGC", gogc)
		debug.SetGCPercent(before)
		bound := boundGarbage()
		bound.adjust()
		if got := debug.SetGCPercent(before); (got == before) != kept {
			t.Errorf("with GOGC=%q the percentage is %d, was %d before; want it kept: %t", gogc, got, before, kept)
		}
	}
}

// TestGarbageOfSmallAndLargeHeaps checks how much garbage heaps of several sizes may hold.
func TestGarbageOfSmallAndLargeHeaps(t *testing.T) {
	for live, want := range map[uint64]int{0: 100, 64 << 20: 100, 160 << 20: 80, 400 << 20: 32, 2 << 30: 30} {
		if got := garbagePercent(live); got != want {
			t.Errorf("with %d MiB live the percentage is %d, want %d", live>>20, got, want)
		}
	}
}
