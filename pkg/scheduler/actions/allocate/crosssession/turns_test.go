// SPDX-License-Identifier: Apache-2.0

package crosssession

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// attempts runs sessions, one after the other, in which gangs ask for their turn and find no room.
type attempts struct {
	Turns
	now time.Time
	// alone reports whether no gang of another namespace waits.
	alone bool
	// costs has how long an attempt takes, by gang.
	costs map[string]time.Duration
	// tried counts the attempts, by gang. asked is when each gang first asked for its turn.
	tried map[string]int
	asked map[string]time.Time
	// deleted reports whether all gangs were deleted.
	deleted bool
}

func newAttempts(costs map[string]time.Duration) *attempts {
	return &attempts{Turns: Turns{limited: true}, now: time.Unix(1_000_000, 0), costs: costs, tried: map[string]int{}, asked: map[string]time.Time{}}
}

// created returns when the gang was created: when it first asked for its turn.
func (a *attempts) created(gang string) time.Time {
	if a.asked[gang].IsZero() {
		a.asked[gang] = a.now
	}
	return a.asked[gang]
}

// gangsOf returns the names of n gangs, and records how long an attempt for each of them takes.
func (a *attempts) gangsOf(n int, took time.Duration) (gangs []string) {
	for i := range n {
		gangs = append(gangs, fmt.Sprint("gang-", i))
		a.costs[gangs[i]] = took
	}
	return gangs
}

// exist returns all gangs that have asked for their turn, unless they were deleted.
func (a *attempts) exist() map[[2]string]bool {
	names := map[[2]string]bool{}
	for gang := range a.asked {
		names[[2]string{"a", gang}] = !a.deleted
	}
	return names
}

// session runs a session, a second after the end of the last one, and returns how long it took and which gangs it tried.
func (a *attempts) session(gangs ...string) (took time.Duration, tried []string) {
	a.now = a.now.Add(time.Second)
	a.BeginSession(a.now, a.alone, a.exist)
	for _, gang := range gangs {
		if a.Has("a", gang, a.created(gang), false) {
			a.Charge("a", gang, a.costs[gang])
			a.tried[gang]++
			took += a.costs[gang]
			tried = append(tried, gang)
		}
	}
	a.now = a.now.Add(took)
	return took, tried
}

// TestTurnsLimitTheTimeOfFailedAttempts checks how much time attempts take in one session, which share of the time they
// take in 3,000 sessions, and how long a gang waits between two attempts.
func TestTurnsLimitTheTimeOfFailedAttempts(t *testing.T) {
	tests := map[string]struct {
		gangs  int
		cost   time.Duration
		alone  bool
		most   time.Duration // in one session
		share  [2]float64    // of the time of all sessions, from and to
		waited int           // the most sessions between two attempts for the same gang
	}{
		"cheap attempts":           {gangs: 10, cost: time.Millisecond, most: 10 * time.Millisecond, share: [2]float64{0.009, 0.01}, waited: 1},
		"many attempts":            {gangs: 100, cost: 50 * time.Millisecond, most: 600 * time.Millisecond, share: [2]float64{0.2, 0.26}, waited: 40},
		"many attempts, if alone":  {gangs: 100, cost: 50 * time.Millisecond, alone: true, most: 600 * time.Millisecond, share: [2]float64{0.32, 0.36}, waited: 20},
		"long attempts, if alone":  {gangs: 20, cost: 4 * time.Second, alone: true, most: 4 * time.Second, share: [2]float64{0.25, 0.4}, waited: 600},
		"long attempts":            {gangs: 20, cost: 4 * time.Second, most: 4 * time.Second, share: [2]float64{0.22, 0.26}, waited: 600},
		"attempts beyond the debt": {gangs: 2, cost: 60 * time.Second, most: 60 * time.Second, share: [2]float64{0.45, 0.5}, waited: 190},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := newAttempts(map[string]time.Duration{})
			a.alone = tt.alone
			gangs := a.gangsOf(tt.gangs, tt.cost)
			began, spent, last := a.now, time.Duration(0), map[string]int{}
			for session := range 3000 {
				took, tried := a.session(gangs...)
				if spent += took; took > tt.most {
					t.Fatalf("session %d takes %s, want %s at most", session, took, tt.most)
				}
				for _, gang := range tried {
					if waited := session - last[gang]; waited > tt.waited {
						t.Fatalf("%s waited for %d sessions, want %d at most", gang, waited, tt.waited)
					}
					last[gang] = session
				}
			}
			for _, gang := range gangs {
				if a.tried[gang] == 0 {
					t.Errorf("%s is never tried", gang)
				}
			}
			if share := float64(spent) / float64(a.now.Sub(began)); share < tt.share[0] || share > tt.share[1] {
				t.Errorf("attempts take %.3f of the time, want %v", share, tt.share)
			}
		})
	}
}

// TestTurnsOfGangsThatMissSessions checks that gangs are tried although one of them asks only in every second to sixth
// session, and an attempt for another one takes long.
func TestTurnsOfGangsThatMissSessions(t *testing.T) {
	for every := 2; every <= 6; every++ {
		costs := map[string]time.Duration{"long": 2 * time.Second, "rare": time.Millisecond}
		gangs := []string{"long"}
		for i := range 30 {
			gangs = append(gangs, fmt.Sprint("gang-", i))
			costs[gangs[i+1]] = 100 * time.Millisecond
		}
		a := newAttempts(costs)
		for session := range 3000 {
			if session%every == 0 {
				a.session(append(gangs, "rare")...)
			} else {
				a.session(gangs...)
			}
		}
		for gang := range costs {
			if a.tried[gang] < 10 {
				t.Errorf("beside a gang that asks in every session of %d, %s is tried in %d sessions of 3,000, want 10 at least", every, gang, a.tried[gang])
			}
		}
	}
}

// TestTurnsOfGangsThatAreAbsent checks that a gang that has not asked for minutes, for example because its queue was
// overused, is tried when it asks again, although attempts for the other gangs are costly.
func TestTurnsOfGangsThatAreAbsent(t *testing.T) {
	a := newAttempts(map[string]time.Duration{})
	gangs := a.gangsOf(10, 2*time.Second)
	for range 10 {
		for range 40 {
			a.session(append(gangs, "rare")...)
		}
		for range 200 {
			a.session(gangs...)
		}
	}
	if a.tried["rare"] < 5 {
		t.Errorf("the gang is tried in %d of 10 times in which it asks, want 5 at least", a.tried["rare"])
	}
}

// TestTurnsOfAQueueThatIsFull checks that a gang behind costly ones is tried even if all gangs pause for more than a
// minute again and again, for example because their queue is full.
func TestTurnsOfAQueueThatIsFull(t *testing.T) {
	for open, full := range map[time.Duration]time.Duration{40 * time.Second: 70 * time.Second, 20 * time.Second: 100 * time.Second} {
		a := newAttempts(map[string]time.Duration{})
		gangs := a.gangsOf(10, 2*time.Second)
		gangs = append(gangs, "last")
		for range 60 {
			for began := a.now; a.now.Sub(began) < open; {
				a.session(gangs...)
			}
			for began := a.now; a.now.Sub(began) < full; {
				a.session()
			}
		}
		for _, gang := range gangs {
			if a.tried[gang] == 0 {
				t.Errorf("with a queue that is open for %s and full for %s, %s is never tried", open, full, gang)
			}
		}
	}
}

// TestTurnsBesideFinishedGangs checks that gangs that no longer ask for their turn, because they run, do not keep the
// last gangs of a namespace from their turns.
func TestTurnsBesideFinishedGangs(t *testing.T) {
	a := newAttempts(map[string]time.Duration{})
	var finished, gangs []string
	for i := range 30 {
		finished = append(finished, fmt.Sprint("finished-", i))
	}
	for i := range 40 {
		gangs = append(gangs, fmt.Sprint("gang-", i))
		a.costs[gangs[i]] = 200 * time.Millisecond
	}
	for range 20 {
		a.session(append(slices.Clone(finished), gangs...)...)
	}
	for range 2000 {
		a.session(gangs...)
	}
	for _, gang := range gangs {
		if a.tried[gang] < 20 {
			t.Errorf("%s is tried in %d sessions, want 20 at least", gang, a.tried[gang])
		}
	}
}

// TestTurnsOfSeveralGangsWithAPromise checks that gangs with a promise take turns if their attempts exceed the limit.
func TestTurnsOfSeveralGangsWithAPromise(t *testing.T) {
	a := newAttempts(nil)
	gangs := []string{"promised-0", "promised-1", "promised-2"}
	for range 600 {
		a.now = a.now.Add(time.Second)
		a.BeginSession(a.now, false, a.exist)
		for _, gang := range gangs {
			if a.Has("a", gang, a.created(gang), true) {
				a.tried[gang]++
				a.Charge("a", gang, time.Second)
				a.now = a.now.Add(time.Second)
			}
		}
	}
	for _, gang := range gangs {
		if a.tried[gang] < 50 {
			t.Errorf("%s has its turn in %d sessions of 600, want 50 at least", gang, a.tried[gang])
		}
	}
}

// TestTurnsOfAQueueThatOpensBriefly checks that each gang has its turns if all gangs ask in only one session of ten,
// because their queue is open only then.
func TestTurnsOfAQueueThatOpensBriefly(t *testing.T) {
	a := newAttempts(map[string]time.Duration{})
	gangs := a.gangsOf(4, 3*time.Second)
	for session := range 2000 {
		a.now = a.now.Add(14 * time.Second)
		if session%10 == 0 {
			a.session(gangs...)
		} else {
			a.session()
		}
	}
	for _, gang := range gangs {
		if a.tried[gang] < 20 {
			t.Errorf("%s is tried in %d of 200 sessions in which it asks, want 20 at least", gang, a.tried[gang])
		}
	}
}

// TestTurnsInStep checks that a gang that asks in every second session is tried even if the sessions by age are always
// the other sessions.
func TestTurnsInStep(t *testing.T) {
	for parity := range 2 {
		a := newAttempts(map[string]time.Duration{"gang-0": 600 * time.Millisecond, "gang-1": 600 * time.Millisecond, "gang-2": 600 * time.Millisecond})
		for session := range 400 {
			gangs := []string{"gang-0", "gang-1", "gang-2"}
			if session%2 == parity {
				gangs = append(gangs, "rare")
			}
			a.session(gangs...)
			a.now = a.now.Add(14 * time.Second)
		}
		if a.tried["rare"] < 10 {
			t.Errorf("the gang is tried in %d sessions of 200 in which it asks, want 10 at least", a.tried["rare"])
		}
	}
}

// TestTurnsBesideALongAttempt checks that a gang whose attempts take long leaves many turns to the cheap gangs of its
// namespace.
func TestTurnsBesideALongAttempt(t *testing.T) {
	a := newAttempts(map[string]time.Duration{"long": 2 * time.Second})
	gangs := []string{"long"}
	for i := range 60 {
		gangs = append(gangs, fmt.Sprint("gang-", i))
		a.costs[gangs[i+1]] = 20 * time.Millisecond
	}
	for range 200 {
		a.session(gangs...)
	}
	for _, gang := range gangs {
		if a.tried[gang] < 5 {
			t.Errorf("%s is tried in %d sessions of 200, want 5 at least", gang, a.tried[gang])
		}
	}
}

// TestTurnsOfUrgentGangs checks that a new gang that comes first in the job order is tried soon, although gangs of the
// namespace have waited longer.
func TestTurnsOfUrgentGangs(t *testing.T) {
	a := newAttempts(map[string]time.Duration{})
	gangs := a.gangsOf(100, 100*time.Millisecond)
	for range 50 {
		a.session(gangs...)
	}
	for session := 0; a.tried["urgent"] == 0; session++ {
		if a.session(append([]string{"urgent"}, gangs...)...); session > 3 {
			t.Fatal("the gang is not tried in four sessions")
		}
	}
}

// TestTurnsOfGangsWithAPromise checks that a gang that a plugin places first has a turn in each session up to a debt.
// It has turns even if its attempts take more than a quarter of the time for some seconds. In the long run, its time is
// limited.
func TestTurnsOfGangsWithAPromise(t *testing.T) {
	for cost, want := range map[time.Duration][2]int{100 * time.Millisecond: {1000, 1000}, time.Second: {300, 400}, 4 * time.Second: {80, 100}} {
		a := newAttempts(nil)
		began, first := a.now, 0
		for session := range 1000 {
			a.now = a.now.Add(time.Second)
			a.BeginSession(a.now, false, a.exist)
			if !a.Has("a", "promised", a.created("promised"), true) {
				continue
			}
			if a.tried["promised"]++; a.tried["promised"] == session+1 {
				first++
			}
			a.Charge("a", "promised", cost)
			a.now = a.now.Add(cost)
		}
		if first < 3 {
			t.Errorf("with attempts of %s, the gang has a turn in the first %d sessions, want 3 at least", cost, first)
		}
		if got := a.tried["promised"]; got < want[0] || got > want[1] {
			t.Errorf("with attempts of %s, the gang has a turn in %d sessions of 1,000, want %v", cost, got, want)
		}
		if share := float64(a.tried["promised"]) * cost.Seconds() / a.now.Sub(began).Seconds(); share > 0.5 {
			t.Errorf("attempts of %s take %.2f of the time", cost, share)
		}
	}
}

// TestTurnsRecover checks that all gangs of a namespace are tried in each session again once their attempts are cheap,
// and that nothing is remembered after the gangs were deleted.
func TestTurnsRecover(t *testing.T) {
	a := newAttempts(map[string]time.Duration{})
	gangs := a.gangsOf(50, time.Second)
	for range 100 {
		a.session(gangs...)
	}
	clear(a.costs)
	for range 100 {
		a.session(gangs...)
	}
	if _, tried := a.session(gangs...); len(tried) != len(gangs) {
		t.Errorf("%d gangs are tried, want %d", len(tried), len(gangs))
	}
	a.now = a.now.Add(2 * absentFor)
	if a.session(); len(a.gangs) != len(gangs) {
		t.Errorf("%d of %d gangs are remembered that do not ask for their turn", len(a.gangs), len(gangs))
	}
	a.deleted = true
	a.now = a.now.Add(2 * absentFor)
	if a.session(); len(a.buckets)+len(a.gangs) > 0 {
		t.Errorf("without gangs, %d buckets and %d gangs are remembered", len(a.buckets), len(a.gangs))
	}
}

// TestTurnsOfGangsThatHold checks that gangs that hold resources have a separate bucket: they do not use up the time of
// the namespace's other gangs, and the total time is limited.
func TestTurnsOfGangsThatHold(t *testing.T) {
	const attempt = 400 * time.Millisecond
	a := newAttempts(nil)
	began := a.now
	for range 200 {
		a.now = a.now.Add(time.Second)
		a.BeginSession(a.now, false, a.exist)
		for _, gang := range []string{"x", "waits", "y"} {
			if !a.Has("a", gang, a.created(gang), false) {
				continue
			}
			a.tried[gang]++
			a.Charge("a", gang, attempt)
			a.now = a.now.Add(attempt)
			if gang != "waits" {
				a.Hold("a", gang)
			}
		}
	}
	share := func(gangs ...string) (share float64) {
		for _, gang := range gangs {
			share += float64(a.tried[gang]) * attempt.Seconds() / a.now.Sub(began).Seconds()
		}
		return share
	}
	if holders, other := share("x", "y"), share("waits"); holders < 0.15 || other < 0.08 || holders+other > 0.34 {
		t.Errorf("gangs that hold take %.2f of the time, and another %.2f, want 0.15 and 0.08 at least, and 0.34 together at most", holders, other)
	}
}

// TestTurnsOfHoldersBesideAPromise checks that a gang that holds resources uses the namespace's other bucket if gangs
// with a promise use up the bucket for both.
func TestTurnsOfHoldersBesideAPromise(t *testing.T) {
	a := newAttempts(nil)
	for range 500 {
		a.now = a.now.Add(500 * time.Millisecond)
		a.BeginSession(a.now, false, a.exist)
		if a.Has("a", "promised", a.created("promised"), true) {
			a.Charge("a", "promised", 400*time.Millisecond)
			a.now = a.now.Add(400 * time.Millisecond)
		}
		if a.Has("a", "holds", a.created("holds"), false) {
			a.tried["holds"]++
			a.Hold("a", "holds")
			a.Charge("a", "holds", time.Millisecond)
		}
	}
	if a.tried["holds"] < 400 {
		t.Errorf("the gang is tried in %d sessions of 500, want 400 at least", a.tried["holds"])
	}
}

// TestTurnsAreByNamespace checks that a gang has its turn whatever time other namespaces have used, and that a gang
// that asks twice in a session gets the same answer.
func TestTurnsAreByNamespace(t *testing.T) {
	a := newAttempts(map[string]time.Duration{"x": time.Minute})
	a.session("x")
	a.now = a.now.Add(time.Second)
	a.BeginSession(a.now, false, a.exist)
	for range 2 {
		if a.Has("a", "x", time.Time{}, false) || !a.Has("b", "x", time.Time{}, false) {
			t.Error("want no turn in the namespace that has a debt, and a turn in the other one")
		}
		a.Charge("b", "x", time.Minute)
	}
}
