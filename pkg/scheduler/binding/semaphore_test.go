// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// crowd are contenders, by gang, and who of them was granted a slot, in the order of it.
type crowd struct {
	*prioritySemaphore
	gangs   map[api.JobID]*contender
	waiters []*waiter
	granted []api.JobID
	gangOf  map[*contender]api.JobID
}

func newCrowd(slots int) *crowd {
	return &crowd{prioritySemaphore: newPrioritySemaphore(slots), gangs: map[api.JobID]*contender{}, gangOf: map[*contender]api.JobID{}}
}

// want joins that many times for the gang; a gang is the older the earlier it came first.
func (c *crowd) want(gang api.JobID, slots int) {
	if c.gangs[gang] == nil {
		c.gangs[gang] = newContender(gang, int64(len(c.gangs)))
		c.gangOf[c.gangs[gang]] = gang
	}
	for range slots {
		c.waiters = append(c.waiters, c.join(c.gangs[gang]))
		c.note()
	}
}

// note writes down who was granted a slot since the last time.
func (c *crowd) note() {
	c.waiters = slices.DeleteFunc(c.waiters, func(w *waiter) bool {
		select {
		case <-w.granted:
			c.granted = append(c.granted, c.gangOf[w.contender])
			return true
		default:
			return false
		}
	})
}

func (c *crowd) giveBack(gang api.JobID) {
	c.release(c.gangs[gang])
	c.note()
}

// held is what each gang that holds slots has.
func (c *crowd) held() map[api.JobID]int {
	held := map[api.JobID]int{}
	for gang, contender := range c.gangs {
		if contender.held > 0 {
			held[gang] = contender.held
		}
	}
	return held
}

func TestSlotsAreLeftForThoseWhoComeLater(t *testing.T) {
	tests := map[string]struct {
		wants []api.JobID
		want  map[api.JobID]int
	}{
		"a gang that is alone has a quarter":        {wants: []api.JobID{"a/1"}, want: map[api.JobID]int{"a/1": 32}},
		"a gang has half of what older gangs leave": {wants: []api.JobID{"a/1", "a/2", "a/3"}, want: map[api.JobID]int{"a/1": 32, "a/2": 16, "a/3": 8}},
		"the last eighth of a namespace's room is for gangs that hold none": {
			wants: []api.JobID{"a/1", "a/2", "a/3", "a/4", "a/5", "a/6", "a/7", "a/8", "a/9"},
			want:  map[api.JobID]int{"a/1": 32, "a/2": 16, "a/3": 8, "a/4": 1, "a/5": 1, "a/6": 1, "a/7": 1, "a/8": 1, "a/9": 1},
		},
		"a namespace has half of what is free": {
			wants: []api.JobID{"a/1", "a/2", "b/1", "c/1"},
			want:  map[api.JobID]int{"a/1": 32, "a/2": 16, "b/1": 20, "c/1": 15},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(128)
			for _, gang := range tc.wants {
				c.want(gang, 100)
			}
			if diff := cmp.Diff(tc.want, c.held()); diff != "" {
				t.Errorf("slots held (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNamespacesEndWithEqualShares(t *testing.T) {
	c := newCrowd(128)
	for n := range 3 {
		for g := range 8 {
			c.want(api.JobID(fmt.Sprintf("%c/%d", 'a'+n, g)), 40)
		}
	}
	for range 50 { // calls of all gangs end, one after the other
		for _, gang := range []api.JobID{"a/0", "b/0", "c/0", "a/1", "b/1", "a/2"} {
			if c.gangs[gang].held > 0 {
				c.giveBack(gang)
			}
		}
	}
	a, b, d := c.namespaces["a"].held, c.namespaces["b"].held, c.namespaces["c"].held
	if least := 28; max(a, b, d)-min(a, b, d) > 1 || min(a, b, d) < least {
		t.Errorf("namespaces hold %d, %d and %d slots of 128, want equal shares of at least %d", a, b, d, least)
	}
}

func TestFreedSlotGoesToTheOldestGangThatMayHaveIt(t *testing.T) {
	c := newCrowd(128)
	for _, gang := range []api.JobID{"a/old", "a/middle", "a/young"} {
		c.want(gang, 40)
	}
	c.granted = nil
	for range 8 {
		c.giveBack("a/old")
	}
	if diff := cmp.Diff(slices.Repeat([]api.JobID{"a/old"}, 8), c.granted); diff != "" {
		t.Errorf("slots went to (-want +got):\n%s", diff)
	}
}

func TestNamespacesAreServedInTurn(t *testing.T) {
	c := newCrowd(2)
	c.want("a/1", 9)
	for _, gang := range []api.JobID{"b/1", "c/1", "d/1", "c/2"} {
		c.want(gang, 1)
	}
	c.giveBack("a/1")
	c.giveBack("b/1")
	c.giveBack("c/1")
	c.giveBack("d/1")
	want := []api.JobID{"a/1", "b/1", "c/1", "d/1", "a/1"}
	if diff := cmp.Diff(want, c.granted[:5]); diff != "" {
		t.Errorf("slots went to (-want +got):\n%s", diff)
	}
}

func TestSemaphoreGivesUpWithoutLosingASlot(t *testing.T) {
	s := newPrioritySemaphore(1)
	of := func(age int64) *contender { return newContender(gang, age) }
	holder := of(1)
	if !s.acquire(t.Context(), holder) {
		t.Fatal("the only slot was free and not granted")
	}
	cancelled, cancel := context.WithCancel(t.Context())
	inLine := s.join(of(2))
	cancel()
	if s.acquire(cancelled, of(3)) {
		t.Error("a slot was granted to a context that has ended")
	}
	s.leave(inLine)
	granted := s.join(of(4))
	s.release(holder)
	<-granted.granted
	s.leave(granted) // granted meanwhile: leaving gives the slot back
	if !s.acquire(t.Context(), of(5)) {
		t.Error("the slot was lost")
	}
}

// TestSemaphoreHoldsItsBounds plays random joins, leaves and releases of gangs of several namespaces, and checks after each
// that nobody holds more than the rules allow, that nobody waits who may have a slot, and at the end that none is lost.
func TestSemaphoreHoldsItsBounds(t *testing.T) {
	for seed := range uint64(300) {
		d := rand.New(rand.NewPCG(seed, 1))
		slots := 1 + d.IntN(40)
		c := newCrowd(slots)
		var gangs []api.JobID
		for range 1 + d.IntN(12) {
			gangs = append(gangs, api.JobID(fmt.Sprintf("%c/%d", 'a'+d.IntN(1+d.IntN(5)), len(gangs))))
		}
		for range 300 {
			gang := gangs[d.IntN(len(gangs))]
			before := len(c.granted)
			switch holder := c.gangs[gang]; {
			case d.IntN(3) == 0:
				c.want(gang, 1+d.IntN(3))
			case holder != nil && holder.held > 0 && d.IntN(2) == 0:
				c.giveBack(gang)
			case len(c.waiters) > 0 && d.IntN(4) == 0:
				i := d.IntN(len(c.waiters))
				c.leave(c.waiters[i])
				c.waiters = slices.Delete(c.waiters, i, i+1)
			}
			c.check(t, slots, len(c.granted) == before+1)
			if t.Failed() {
				t.Fatalf("this was seed %d, of %d slots", seed, slots)
			}
		}
		for _, w := range c.waiters {
			c.leave(w)
		}
		for gang, contender := range c.gangs {
			for contender.held > 0 {
				c.giveBack(gang)
			}
		}
		if c.free != slots || len(c.namespaces) > 0 || len(c.prioritySemaphore.waiting) > 0 {
			t.Fatalf("seed %d: %d of %d slots are free at the end, %d namespaces known", seed, c.free, slots, len(c.namespaces))
		}
	}
}

// check holds the semaphore against the rules, reckoned anew. Shares shrink as others come, so that only who alone was
// served now need be within its own.
func (c *crowd) check(t *testing.T, slots int, served bool) {
	t.Helper()
	total, held, waits := 0, map[string]int{}, map[string]bool{}
	for _, contender := range c.gangs {
		total += contender.held
		held[contender.namespace] += contender.held
		waits[contender.namespace] = waits[contender.namespace] || contender.line.Len() > 0
	}
	if total+c.free != slots || c.free < 0 {
		t.Errorf("%d slots are held and %d free, of %d", total, c.free, slots)
	}
	for namespace, n := range held {
		spare := (c.free - n + 1) / 2
		for gang, contender := range c.gangs {
			if contender.namespace != namespace {
				continue
			}
			if contender.held > (slots+3)/4 {
				t.Errorf("%s holds %d of %d slots", gang, contender.held, slots)
			}
			if contender.held == 0 && contender.line.Len() > 0 && spare > 0 {
				t.Errorf("%s waits without a slot, and its namespace may have %d more", gang, spare)
			}
		}
		if n > (slots+1)/2 {
			t.Errorf("namespace %s holds %d of %d slots", namespace, n, slots)
		}
		if n == 0 && waits[namespace] && c.free > 0 {
			t.Errorf("namespace %s waits without a slot, and %d are free", namespace, c.free)
		}
	}
	if !served {
		return
	}
	last := c.gangs[c.granted[len(c.granted)-1]]
	if h := held[last.namespace]; h-1 >= c.free+1 {
		t.Errorf("namespace %s was served, and held %d slots with %d free", last.namespace, h-1, c.free+1)
	}
	room := held[last.namespace] - 1 + (c.free+1-held[last.namespace]+1+1)/2
	if spare := room - held[last.namespace] + 1; last.held > 1 && spare <= room/8 {
		t.Errorf("%s was served, and held %d, with %d slots left of %d", c.granted[len(c.granted)-1], last.held-1, spare, room)
	}
	for _, other := range c.gangs {
		if other.namespace == last.namespace && other.age < last.age {
			room -= other.held
		}
	}
	if last.held-1 >= room-(last.held-1) {
		t.Errorf("%s was served, and held %d of the %d slots that older gangs leave", c.granted[len(c.granted)-1], last.held-1, room)
	}
}

// Bindings hang until their time-out, behind a slow admission webhook of one namespace, say. Nobody else waits for that.
func TestHangingBindingsHoldUpNobodyElse(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		hangs := script{binds: slices.Repeat([]reply{{takes: time.Hour}}, 10)}
		for i := range 4 { // the youngest is there first
			gang := api.JobID(fmt.Sprintf("slow/%d", i))
			hangs.steps = []act{{plugin: "a", takes: time.Duration(4-i) * time.Second}}
			w.mustSubmit(t, gang, fmt.Sprintf("h%d-", i), 100, slices.Repeat([]script{hangs}, 100)...)
		}
		time.Sleep(10 * time.Second)
		start := time.Now()
		for _, gang := range []api.JobID{"slow/quick", "other/quick"} {
			w.mustSubmit(t, gang, string(gang[:1])+"q", 3, script{}, script{}, script{})
		}
		synctest.Wait()
		for _, id := range []api.TaskID{"sq0", "sq1", "sq2", "oq0", "oq1", "oq2"} {
			traceIs(id, "bind bound")(t, w)
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("the others were bound after %v, want at once", took)
		}
		w.drain(t)
	})
}
