// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// slotUsers are requesters, by gang, and the gangs that were granted slots, in order.
type slotUsers struct {
	*prioritySemaphore
	gangs   map[api.JobID]*requester
	waiters []*waiter
	calls   map[api.JobID][]*waiter
	granted []api.JobID
	gangOf  map[*requester]api.JobID
}

func newSlotUsers(slots int) *slotUsers {
	return &slotUsers{
		prioritySemaphore: newPrioritySemaphore(slots),
		gangs:             map[api.JobID]*requester{}, calls: map[api.JobID][]*waiter{}, gangOf: map[*requester]api.JobID{},
	}
}

// want requests the given number of slots for the gang. The earlier a gang's first request, the older it is.
func (c *slotUsers) want(gang api.JobID, slots int) {
	if c.gangs[gang] == nil {
		c.came(gang)
	}
	for range slots {
		c.waiters = append(c.waiters, c.join(c.gangs[gang]))
		c.note()
	}
}

// came adds the gangs, oldest first, without any request.
func (c *slotUsers) came(gangs ...api.JobID) {
	for _, gang := range gangs {
		c.gangs[gang] = newRequester(gang, int64(len(c.gangs)))
		c.gangOf[c.gangs[gang]] = gang
	}
}

// note records the slots granted since the last call.
func (c *slotUsers) note() {
	c.waiters = slices.DeleteFunc(c.waiters, func(w *waiter) bool {
		select {
		case <-w.granted:
			gang := c.gangOf[w.requester]
			c.granted = append(c.granted, gang)
			c.calls[gang] = append(c.calls[gang], w)
			return true
		default:
			return false
		}
	})
}

// end ends the gang's last call.
func (c *slotUsers) end(gang api.JobID) {
	last := len(c.calls[gang]) - 1
	w := c.calls[gang][last]
	c.calls[gang] = c.calls[gang][:last]
	c.release(w)
	c.note()
}

// hang makes all calls of the gang hang.
func (c *slotUsers) hang(gang api.JobID) {
	for _, w := range c.calls[gang] {
		if !w.lent {
			c.lend(w)
		}
	}
	c.note()
}

// held returns the number of slots that each gang holds, without gangs that hold none.
func (c *slotUsers) held() map[api.JobID]int {
	held := map[api.JobID]int{}
	for gang, requester := range c.gangs {
		if requester.held > 0 {
			held[gang] = requester.held
		}
	}
	return held
}

func TestNamespacesLeaveSlotsForLaterNamespaces(t *testing.T) {
	tests := map[string]struct {
		wants []api.JobID
		want  map[api.JobID]int
	}{
		"a gang that is alone has half":        {wants: []api.JobID{"a/1"}, want: map[api.JobID]int{"a/1": 64}},
		"its namespace has no more":            {wants: []api.JobID{"a/1", "a/2"}, want: map[api.JobID]int{"a/1": 64}},
		"a namespace has half of what is free": {wants: []api.JobID{"a/1", "a/2", "b/1", "c/1"}, want: map[api.JobID]int{"a/1": 64, "b/1": 32, "c/1": 16}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := newSlotUsers(128)
			for _, gang := range tc.wants {
				c.want(gang, 100)
			}
			if diff := cmp.Diff(tc.want, c.held()); diff != "" {
				t.Errorf("slots held (-want +got):\n%s", diff)
			}
		})
	}
}

// TestGangsOfANamespaceAreServedOneAfterTheOther checks that gangs of a namespace are served one after the other. A few
// younger gangs get slots beside the oldest gang, so that they need not wait until a large gang has ended.
func TestGangsOfANamespaceAreServedOneAfterTheOther(t *testing.T) {
	c := newSlotUsers(128)
	gangs := []api.JobID{"a/0", "a/1", "a/2", "a/3", "a/4", "a/5", "a/6", "a/7", "a/8", "a/9", "a/10"}
	for _, gang := range gangs {
		c.want(gang, 100)
	}
	ended := func(calls int) map[api.JobID]int {
		for range calls {
			c.end("a/0")
		}
		return c.held()
	}
	if diff := cmp.Diff(map[api.JobID]int{"a/0": 61, "a/1": 1, "a/2": 1, "a/3": 1}, ended(3)); diff != "" {
		t.Errorf("slots held when 3 calls of the oldest have ended (-want +got):\n%s", diff)
	}
	beside := map[api.JobID]int{"a/0": 56, "a/1": 1, "a/2": 1, "a/3": 1, "a/4": 1, "a/5": 1, "a/6": 1, "a/7": 1, "a/8": 1}
	if diff := cmp.Diff(beside, ended(33)); diff != "" {
		t.Errorf("slots held while the oldest wants more (-want +got):\n%s", diff)
	}
	beside["a/0"], beside["a/1"] = 46, 11
	if diff := cmp.Diff(beside, ended(18)); diff != "" {
		t.Errorf("slots held when the oldest wants no more (-want +got):\n%s", diff)
	}
}

func TestAnOlderGangThatComesLateIsServedBeforeYoungerOnes(t *testing.T) {
	c := newSlotUsers(128)
	c.came("a/old")
	for _, gang := range []api.JobID{"a/1", "a/2", "a/3", "a/4", "a/5", "a/6", "a/7", "a/8", "a/9"} {
		c.want(gang, 100)
	}
	for range 8 {
		c.end("a/1")
	}
	c.want("a/old", 2)
	c.granted = nil
	for range 3 {
		c.end("a/1")
	}
	if diff := cmp.Diff([]api.JobID{"a/old", "a/old", "a/1"}, c.granted); diff != "" {
		t.Errorf("slots went to (-want +got):\n%s", diff)
	}
}

func TestNamespacesEndWithEqualShares(t *testing.T) {
	c := newSlotUsers(128)
	for n := range 3 {
		for g := range 8 {
			c.want(api.JobID(fmt.Sprintf("%c/%d", 'a'+n, g)), 40)
		}
	}
	for range 50 { // The calls of all gangs end, one after the other.
		for _, gang := range []api.JobID{"a/0", "b/0", "c/0", "a/1", "b/1", "a/2"} {
			if c.gangs[gang].held > 0 {
				c.end(gang)
			}
		}
	}
	a, b, d := c.namespaces["a"].held, c.namespaces["b"].held, c.namespaces["c"].held
	if least := 28; max(a, b, d)-min(a, b, d) > 1 || min(a, b, d) < least {
		t.Errorf("namespaces hold %d, %d and %d slots of 128, want equal shares of at least %d", a, b, d, least)
	}
}

func TestNamespacesAreServedInTurn(t *testing.T) {
	c := newSlotUsers(2)
	c.want("a/1", 9)
	for _, gang := range []api.JobID{"b/1", "c/1", "d/1", "c/2"} {
		c.want(gang, 1)
	}
	c.end("a/1")
	c.end("b/1")
	c.end("c/1")
	c.end("d/1")
	want := []api.JobID{"a/1", "b/1", "c/1", "d/1", "a/1"}
	if diff := cmp.Diff(want, c.granted[:5]); diff != "" {
		t.Errorf("slots went to (-want +got):\n%s", diff)
	}
}

func TestSemaphoreGivesUpWithoutLosingASlot(t *testing.T) {
	s := newPrioritySemaphore(1)
	of := func(age int64) *requester { return newRequester(gang, age) }
	holder := s.acquire(t.Context(), of(1))
	if holder == nil {
		t.Fatal("the only slot was free and not granted")
	}
	cancelled, cancel := context.WithCancel(t.Context())
	inLine := s.join(of(2))
	cancel()
	if s.acquire(cancelled, of(3)) != nil {
		t.Error("a slot was granted to a context that has ended")
	}
	s.leave(inLine)
	granted := s.join(of(4))
	s.release(holder)
	<-granted.granted
	s.leave(granted) // The slot was granted in the meantime, so leaving gives it back.
	if s.acquire(t.Context(), of(5)) == nil {
		t.Error("the slot was lost")
	}
}

// TestSemaphoreHoldsItsBounds plays random joins, leaves, ends and hangs of calls of gangs in several namespaces.
// After each it checks that no gang holds more slots than the rules allow, and that no gang waits for a slot that it
// may have. At the end it checks that no slot is lost.
func TestSemaphoreHoldsItsBounds(t *testing.T) {
	for seed := range uint64(300) {
		d := rand.New(rand.NewPCG(seed, 1))
		slots := 1 + d.IntN(40)
		c := newSlotUsers(slots)
		var gangs []api.JobID
		for range 1 + d.IntN(12) {
			gangs = append(gangs, api.JobID(fmt.Sprintf("%c/%d", 'a'+d.IntN(1+d.IntN(5)), len(gangs))))
		}
		for range 300 {
			c.act(d, gangs[d.IntN(len(gangs))])
			c.check(t, slots)
			if t.Failed() {
				t.Fatalf("this was seed %d, of %d slots", seed, slots)
			}
		}
		for _, w := range c.waiters {
			c.leave(w)
		}
		c.waiters = nil
		for gang := range c.gangs {
			for len(c.calls[gang]) > 0 {
				c.end(gang)
			}
		}
		if c.free != slots || c.lent != 0 || len(c.namespaces) > 0 || len(c.prioritySemaphore.waiting) > 0 {
			t.Fatalf("seed %d: %d of %d slots are free at the end, %d lent, %d namespaces known", seed, c.free, slots, c.lent, len(c.namespaces))
		}
	}
}

func (c *slotUsers) act(d *rand.Rand, gang api.JobID) {
	switch calls := c.calls[gang]; {
	case d.IntN(3) == 0:
		c.want(gang, 1+d.IntN(3))
	case len(calls) > 0 && d.IntN(3) == 0:
		i := d.IntN(len(calls))
		calls[i], calls[len(calls)-1] = calls[len(calls)-1], calls[i]
		c.end(gang)
	case len(calls) > 0 && d.IntN(4) == 0:
		if w := calls[d.IntN(len(calls))]; !w.lent {
			c.lend(w)
			c.note()
		}
	case len(c.waiters) > 0 && d.IntN(4) == 0:
		i := d.IntN(len(c.waiters))
		c.leave(c.waiters[i])
		c.waiters = slices.Delete(c.waiters, i, i+1)
	}
}

// check compares the semaphore with the rules, which it computes independently.
func (c *slotUsers) check(t *testing.T, slots int) {
	t.Helper()
	total, held, lent := 0, map[string]int{}, 0
	for gang, requester := range c.gangs {
		own := 0
		for _, w := range c.calls[gang] {
			if w.lent {
				lent++
			} else {
				own++
			}
		}
		if own != requester.held {
			t.Errorf("%s holds %d slots, for %d calls", gang, requester.held, own)
		}
		total += own
		held[requester.namespace] += own
	}
	if total+c.free != slots || c.free < 0 || lent != c.lent || lent > slots {
		t.Errorf("%d slots are held, %d free and %d lent, of %d", total, c.free, c.lent, slots)
	}
	for namespace, n := range held {
		if n > (slots+1)/2 {
			t.Errorf("namespace %s holds %d of %d slots", namespace, n, slots)
		}
		for gang, requester := range c.gangs {
			if requester.namespace != namespace || requester.line.Len() == 0 || n >= c.free {
				continue
			}
			if requester.held == 0 || lent == 0 || n < openWindow {
				t.Errorf("%s waits with %d slots, its namespace holds %d, and %d are free", gang, requester.held, n, c.free)
			}
		}
	}
}
