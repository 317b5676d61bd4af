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
	for gogc, want := range map[string]int{"": gcPercent, "200": before} {
		t.Setenv("GOGC", gogc)
		debug.SetGCPercent(before)
		boundGarbage()
		if got := debug.SetGCPercent(before); got != want {
			t.Errorf("with GOGC=%q the percentage is %d, want %d", gogc, got, want)
		}
	}
}
