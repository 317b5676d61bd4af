// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/rounds"
)

var (
	modelSeeds = rounds.Flag("model.seeds", 300, 3000, "how many random sequences TestModel plays")
	modelSeed  = flag.Uint64("model.seed", 0, "play only the sequence of this seed")
)

// TestModel plays random sequences of step results, panics, timeouts, late returns, lost, late and rejected binds,
// pod and node deletions, cancellations, drains and aborts. During and after each sequence it checks that
//
//   - at the first Binding of a transaction, the members that passed and were not cancelled reach the minimum of each of
//     its gangs, and in a strict gang all members have passed,
//   - if a member is not bound, each of its steps that has begun, or is marked with RollbackIfNotRun, was rolled back
//     successfully exactly once, in reverse order and while no step ran,
//   - no step of a bound member was rolled back,
//   - the members that hold resources are the members that are bound or in flight,
//   - every transaction ends, and the transactions of a gang run one after the other.
//
// The seed determines the whole sequence before it begins.
func TestModel(t *testing.T) {
	if *modelSeed > 0 {
		playSeed(t, *modelSeed)
		return
	}
	seeds := uint64(modelSeeds.Of(t))
	for seed := uint64(1); seed <= seeds && !t.Failed(); seed++ {
		playSeed(t, seed)
	}
}

func playSeed(t *testing.T, seed uint64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := dice{rand.New(rand.NewPCG(seed, 0))}
		w := newHarness(d.options()...)
		d.gangs(w)
		d.accidents(w)
		if err := d.end(w); err != nil {
			fmt.Fprintf(os.Stderr, "seed %d: a transaction does not end: %v\n", seed, err)
			t.Error(err)
		}
		checkEnd(w)
		w.noViolations(t)
		if t.Failed() {
			t.Logf("this was -model.seed=%d; traces:", seed)
			for _, id := range slices.Sorted(maps.Keys(w.pods)) {
				t.Logf("%s of %d on %s: %s", id, w.minimum[w.pods[id].Task.Job], w.pods[id].Node, trace(w.pods[id]))
			}
		}
	})
}

// dice makes all random choices.
type dice struct{ *rand.Rand }

func (d dice) chance(percent int) bool { return d.IntN(100) < percent }

// span returns zero half of the time, and otherwise a random duration up to longest. Its nanoseconds are odd, so that
// it hardly ever ends at the same moment as a timeout.
func (d dice) span(longest time.Duration) time.Duration {
	if d.chance(50) {
		return 0
	}
	return time.Duration(d.Int64N(int64(longest))) | 1
}

// some returns at most most of these errors, and usually none.
func (d dice) some(most int, of ...error) []error {
	if d.chance(75) {
		return nil
	}
	var errs []error
	for range d.IntN(most) + 1 {
		errs = append(errs, of[d.IntN(len(of))])
	}
	return errs
}

func (d dice) options() []Option {
	return []Option{
		withBindParallelism(1 + d.IntN(4)),
		withMemberParallelism(1 + d.IntN(4)),
		withBindRetry(1+d.IntN(6), defaultOptions().retry),
		withStuckAfter(time.Duration(1+d.IntN(60)) * time.Second),
		withDrainLimit(time.Hour),
	}
}

// gangs submits up to three transactions for each of up to four gangs within some minutes. Some of them contain
// several gangs.
func (d dice) gangs(w *harness) {
	if d.chance(30) {
		w.gate = d.some(8, errServer, errTimeout, errCut)
	}
	gangs := 1 + d.IntN(4)
	sizes := make([]int, gangs)
	for g := range gangs {
		sizes[g] = 1 + d.IntN(6)
		w.setMinimum(gangName(g), 1+d.IntN(sizes[g]))
	}
	var at time.Duration
	for n := range 1 + d.IntN(3*gangs) {
		gangGroup := d.gangGroup(gangs)
		var members []*Member
		for _, terms := range gangGroup.Gangs {
			g := int(terms.Gang[len(terms.Gang)-1] - 'A')
			for i := range sizes[g] {
				name := fmt.Sprintf("%c%d-%d", 'a'+g, n, i)
				members = append(members, w.member(terms.Gang, name, fmt.Sprintf("n%d", d.IntN(8)), d.script()))
			}
		}
		if gangGroup.Gangs[0] == (GangTerms{Gang: gangGroup.Gangs[0].Gang}) && len(gangGroup.Gangs) == 1 {
			gangGroup = nil
		}
		at += 1 + d.span(20*time.Second) // one after the other
		time.AfterFunc(at, func() { submitOrDrop(w, gangGroup, members) })
	}
}

func gangName(g int) api.JobID { return api.JobID(fmt.Sprintf("ns/%c", 'A'+g)) }

// gangGroup chooses one gang, mostly with default terms, or several gangs as a group.
func (d dice) gangGroup(gangs int) *GangGroup {
	first, n := d.IntN(gangs), 1
	if d.chance(40) {
		n += d.IntN(gangs - first)
	}
	gangGroup := &GangGroup{ID: "group"}
	for g := first; g < first+n; g++ {
		terms := GangTerms{Gang: gangName(g)}
		if d.chance(40) {
			terms.Strict, terms.Count = d.chance(50), Count(d.IntN(3))
		}
		gangGroup.Gangs = append(gangGroup.Gangs, terms)
	}
	return gangGroup
}

// submitOrDrop submits the members and ignores that the engine may be draining.
func submitOrDrop(w *harness, gangGroup *GangGroup, members []*Member) {
	err := w.submitGangGroup(members[0].Task.Job, gangGroup, members...)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range members {
		p := w.pods[m.Task.UID]
		w.expect(p, err == nil || errors.Is(err, ErrDraining), "Submit returned %v", err)
		p.held = p.held && err == nil
	}
}

func (d dice) script() script {
	var s script
	for i := range d.IntN(4) {
		s.steps = append(s.steps, d.act(string(rune('a'+i))))
	}
	for range d.IntN(3) {
		s.binds = append(s.binds, d.reply())
	}
	s.lookups = d.some(6, errServer, errTimeout, errCut)
	return s
}

func (d dice) act(plugin string) act {
	a := act{
		plugin:    plugin,
		takes:     d.span(10 * time.Second),
		deaf:      d.chance(30),
		panics:    d.chance(3),
		noUndo:    d.chance(15),
		placed:    d.chance(25),
		undo:      d.some(5, errServer, errStep, errTimeout),
		undoTakes: d.span(2 * time.Second),
	}
	if d.chance(10) {
		a.err = errStep
	}
	if d.chance(10) {
		a.timeout = time.Duration(1+d.IntN(5)) * time.Second
	}
	if d.chance(3) {
		a.takes = 3 * time.Minute
	}
	if d.chance(10) {
		a.undo = append(a.undo, errNotFound)
	}
	return a
}

func (d dice) reply() reply {
	r := reply{takes: d.span(5 * time.Second)}
	switch d.IntN(10) {
	case 0:
		r.err = errCut
	case 1:
		r.err, r.late = errTimeout, 1+time.Duration(d.IntN(90))*time.Millisecond
	case 2:
		r.err, r.lost = errServer, true
	case 3:
		r.err, r.lost = errThrottled, true
	case 4:
		r.err, r.lost = errConflict, true
	case 5:
		r.err = []error{errForbidden, errInvalid}[d.IntN(2)]
	case 6:
		r.overtaken, r.here = d.chance(30), d.chance(50)
	case 7:
		r.takes = time.Minute // past the deadline of the call
	}
	return r
}

// accidents adds deletions and cancellations at random times.
func (d dice) accidents(w *harness) {
	ids := slices.Sorted(maps.Keys(w.pods))
	window := []time.Duration{time.Second, 10 * time.Second, time.Minute}[d.IntN(3)]
	for range d.IntN(10) {
		id, node := ids[d.IntN(len(ids))], fmt.Sprintf("n%d", d.IntN(8))
		var accident func()
		switch d.IntN(5) {
		case 0, 1:
			accident = func() { w.deletePod(id, errDeleted) }
		case 2:
			accident = func() { w.cancel(id, errDeleted) }
		case 3:
			accident = func() { w.deleteNode(node, errDeleted) }
		case 4:
			accident = w.engine.RetryNow
		}
		time.AfterFunc(d.span(window), accident)
	}
}

// end lets the sequence run for a while, or stops it early in one of several ways, and waits for its end.
func (d dice) end(w *harness) error {
	ctx, cancel := context.WithTimeout(context.Background(), 24*time.Hour)
	defer cancel()
	switch d.IntN(5) {
	case 0:
		time.Sleep(d.span(time.Minute))
		cut, cancel := context.WithTimeout(ctx, d.span(30*time.Second))
		defer cancel()
		return w.engine.Drain(cut)
	case 1:
		time.Sleep(d.span(time.Minute))
		w.abort()
		return w.engine.Drain(ctx)
	}
	time.Sleep(2 * time.Minute) // All transactions have been submitted.
	return w.engine.Drain(ctx)
}

// checkEnd checks the harness once all transactions have ended.
func checkEnd(w *harness) {
	time.Sleep(time.Hour) // Late results have arrived, and later submissions were refused.
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.pods {
		abandoned := p.submitted && !p.bound && !p.released
		w.expect(p, !abandoned || !w.engine.going(), "never settled")
		w.expect(p, p.held == (p.bound || abandoned), "holds resources: %v, bound: %v", p.held, p.bound)
		if p.submitted && !p.gone && !abandoned {
			w.expect(p, p.bound == p.landed(), "bound for the ledger: %v, is on %q", p.bound, p.on)
		}
		w.expect(p, p.delayed == "" || abandoned, "still said to wait: %s", p.delayed)
		w.expect(p, p.submitted || len(p.trace) == 0, "touched and not submitted")
		w.expect(p, !w.engine.InFlight(p.Task.Job) && !w.engine.Failing(p.Task.Job), "in flight at the end")
	}
	if len(w.turns.queue) > 0 {
		w.violations = append(w.violations, fmt.Sprintf("%d transactions have not ended", len(w.turns.queue)))
	}
}
