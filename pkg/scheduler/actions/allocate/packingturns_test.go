// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestASearchHasItsShareOfWhatIsLeft: what one place of a job does not use goes to those that follow.
func TestASearchHasItsShareOfWhatIsLeft(t *testing.T) {
	turns := packingTurns{}
	turns.beginSession()
	var got []int
	for places := 4; places > 0; places-- {
		granted := turns.grant(packingSearch{tasks: places}, places)
		got = append(got, granted)
		if places < 4 {
			turns.left -= granted
		}
	}
	want := []int{500_000, 666_666, 666_667, 666_667}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("steps granted to four places, of which the first uses none (-want +got):\n%s", diff)
	}
}

// TestEachSearchHasItsTurn: searches that take all they get, always in one order, have a whole search each in as many sessions as
// they are, and the first to come after one session that it has waited for.
func TestEachSearchHasItsTurn(t *testing.T) {
	turns := packingTurns{}
	searches := []packingSearch{{set: "a"}, {set: "b"}, {set: "c"}}
	whole := map[string][]int{}
	for session := range 7 {
		turns.beginSession()
		if session == 4 {
			searches = append([]packingSearch{{set: "new"}}, searches...)
		}
		for i, search := range searches {
			granted := turns.grant(search, len(searches)-i)
			turns.left -= granted
			turns.wait(search)
			if granted == maxPackingSteps {
				whole[search.set] = append(whole[search.set], session)
			}
		}
	}
	want := map[string][]int{"a": {1, 4}, "b": {2, 6}, "c": {3}, "new": {5}}
	if diff := cmp.Diff(want, whole); diff != "" {
		t.Errorf("sessions in which each had a whole search (-want +got):\n%s", diff)
	}
}

// TestATurnThatIsNotNeededIsGivenUp: others need not leave its steps.
func TestATurnThatIsNotNeededIsGivenUp(t *testing.T) {
	turns := packingTurns{}
	turns.wait(packingSearch{set: "a"})
	turns.beginSession()
	if got, want := turns.grant(packingSearch{set: "b"}, 1), sessionPackingSteps-maxPackingSteps; got != want {
		t.Errorf("%d steps beside one whose turn it is, want %d", got, want)
	}
	turns.finish(packingSearch{set: "a"})
	if got := turns.grant(packingSearch{set: "b"}, 1); got != maxPackingSteps {
		t.Errorf("%d steps after that turn was given up, want %d", got, maxPackingSteps)
	}
}
