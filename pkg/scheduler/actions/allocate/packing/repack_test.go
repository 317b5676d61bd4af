// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"math/rand/v2"
	"testing"
)

// TestRepackingPlacesWhatBestFitLeavesOut draws small solvable problems, with ports and with classes that exclude
// each other.
func TestRepackingPlacesWhatBestFitLeavesOut(t *testing.T) {
	drawn, found := 0, 0
	for seed := range uint64(3000) {
		p := small(rand.New(rand.NewPCG(seed, 1)))
		steps := mostSteps
		if p.Wanted < p.Tasks() || !exhaust(p, 0, 0, p.newFilling()) {
			continue
		}
		start := p.bestFit(&steps)
		if p.enough(start) {
			continue
		}
		drawn++
		steps = 20_000
		plan := p.repack(start, &steps)
		if plan == nil {
			continue
		}
		found++
		if err := check(p, plan); err != nil {
			t.Errorf("seed %d: %v: %v", seed, err, plan)
		}
	}
	t.Logf("%d of %d found", found, drawn)
	if drawn < 20 || found < drawn*9/10 {
		t.Errorf("%d of %d plans are found, want at least 20 drawn and 9 in 10 found", found, drawn)
	}
}
