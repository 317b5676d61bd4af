// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// countingGate counts the calls of the gate.
type countingGate struct {
	Gatekeeper
	asked atomic.Int32
}

func (g *countingGate) Quorum(ctx context.Context, tx *Transaction, passed []*Member) error {
	g.asked.Add(1)
	return g.Gatekeeper.Quorum(ctx, tx, passed)
}

// TestAGangIsJudgedOncePerBurst checks that the gate is called once per burst of losses. A gang loses a hundred
// members above its minimum within a tenth of a second.
func TestAGangIsJudgedOncePerBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(withMemberParallelism(200))
		gate := &countingGate{Gatekeeper: w}
		w.engine.gate = gate
		w.setMinimum("ns/A", 1)
		members := []*Member{w.member("ns/A", "last", "n0", script{steps: []act{{plugin: "a", takes: 10 * time.Second}}})}
		for i := range 100 {
			failing := act{plugin: "a", takes: time.Duration(i) * time.Millisecond, err: errStep}
			members = append(members, w.member("ns/A", "m"+string(rune('A'+i)), "n1", script{steps: []act{failing}}))
		}
		if err := w.submit("ns/A", members...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := gate.asked.Load(); got < 1 || got > 2 {
			t.Errorf("the gang was judged %d times while 100 members were lost, want once or twice", got)
		}
		if err := w.engine.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := gate.asked.Load(); got > 3 {
			t.Errorf("the gang was judged %d times in all, want once more at the barrier", got)
		}
	})
}

// TestALossSoonAfterAVerdictIsJudged checks that a loss soon after a call of the gate leads to another call. So a gang
// below its minimum fails at once, and not when its slowest member has passed.
func TestALossSoonAfterAVerdictIsJudged(t *testing.T) {
	const ms = time.Millisecond
	tests := map[string][]time.Duration{
		"after the first verdict": {0, 10 * ms, 50 * ms},
		"after the second":        {0, 50 * ms, 150 * ms},
	}
	for name, losses := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHarness(withMemberParallelism(200))
				w.setMinimum("ns/A", 2)
				members := []*Member{w.member("ns/A", "last", "n0", script{steps: []act{{plugin: "a", takes: 10 * time.Second}}})}
				for i, lost := range losses {
					failing := act{plugin: "a", takes: lost, err: errStep}
					members = append(members, w.member("ns/A", "m"+string(rune('A'+i)), "n1", script{steps: []act{failing}}))
				}
				if err := w.submit("ns/A", members...); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if w.engine.InFlight("ns/A") {
					t.Error("the gang's last member is still in pre-bind although two are needed")
				}
				if err := w.engine.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// TestCancelGang checks that the members of a cancelled gang are rolled back at once.
func TestCancelGang(t *testing.T) {
	slow := script{steps: []act{{plugin: "a", takes: 10 * time.Second}}}
	playAll(t, map[string]scenario{
		"in pre-bind": {
			minimum: 2,
			pods:    []script{slow, slow},
			events:  map[time.Duration]func(*testing.T, *harness){time.Second: func(_ *testing.T, w *harness) { w.engine.CancelGang(gang, errDeleted) }},
			want:    []string{"a -a released(deleted)", "a -a released(deleted)"},
			took:    time.Second,
		},
		"each member of many fails of that": {
			minimum: 60,
			pods:    slices.Repeat([]script{slow}, 60),
			events:  map[time.Duration]func(*testing.T, *harness){time.Second: func(_ *testing.T, w *harness) { w.engine.CancelGang(gang, errDeleted) }},
			want:    slices.Repeat([]string{"a -a released(deleted)"}, 60),
			took:    time.Second,
		},
	})
}
