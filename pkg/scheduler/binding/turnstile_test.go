package binding

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTurnstileLetsTheOldestTransactionGoFirst(t *testing.T) {
	gate := newTurnstile(1)
	held := gate.join(9)
	names := []string{"young", "old-1", "middle", "old-2"}
	waiters := []*waiter{gate.join(7), gate.join(2), gate.join(5), gate.join(2)}
	<-held.granted
	var order []string
	for range names {
		gate.release() // the slot goes to exactly one of those that wait
		for i, w := range waiters {
			if w == nil {
				continue
			}
			select {
			case <-w.granted:
				order = append(order, names[i])
				waiters[i] = nil
			default:
			}
		}
	}
	if diff := cmp.Diff([]string{"old-1", "old-2", "middle", "young"}, order); diff != "" {
		t.Errorf("order in which slots were granted (-want +got):\n%s", diff)
	}
}

func TestTurnstileGivesUpWithoutLosingASlot(t *testing.T) {
	gate := newTurnstile(1)
	if !gate.acquire(t.Context(), 1) {
		t.Fatal("the only slot was free and not granted")
	}
	cancelled, cancel := context.WithCancel(t.Context())
	inLine := gate.join(2)
	cancel()
	if gate.acquire(cancelled, 3) {
		t.Error("a slot was granted to a context that has ended")
	}
	gate.leave(inLine)
	granted := gate.join(4)
	gate.release()
	<-granted.granted
	gate.leave(granted) // granted meanwhile: leaving gives the slot back
	if !gate.acquire(t.Context(), 5) {
		t.Error("the slot was lost")
	}
}
