// SPDX-License-Identifier: Apache-2.0

package crosssession

import (
	"fmt"
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
	// tried counts the attempts, by gang.
	tried map[string]int
}

func newAttempts(costs map[string]time.Duration) *attempts {
	return &attempts{now: time.Unix(1_000_000, 0), costs: costs, tried: map[string]int{}}
}

// session runs a session, a second after the end of the last one, and returns how long it took and which gangs it tried.
func (a *attempts) session(gangs ...string) (took time.Duration, tried []string) {
	a.now = a.now.Add(time.Second)
	a.BeginSession(a.now, a.alone)
	for _, gang := range gangs {
		if a.Has("a", gang, false) {
			a.Charge("a", gang, a.costs[gang])
			a.tried[gang]++
			took += a.costs[gang]
			tried = append(tried, gang)
		}
	}
	a.now = a.now.Add(took)
	return took, tried
}

// TestTurnsLimitTheTimeOfFailedAttempts checks how much of the time attempts take: in one session, and in 1,000.
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
		"many attempts":            {gangs: 100, cost: 50 * time.Millisecond, most: 550 * time.Millisecond, share: [2]float64{0.24, 0.26}, waited: 20},
		"many attempts, if alone":  {gangs: 100, cost: 50 * time.Millisecond, alone: true, most: 550 * time.Millisecond, share: [2]float64{0.32, 0.34}, waited: 11},
		"long attempts":            {gangs: 20, cost: 4 * time.Second, most: 4 * time.Second, share: [2]float64{0.24, 0.26}, waited: 260},
		"attempts beyond the debt": {gangs: 2, cost: 60 * time.Second, most: 60 * time.Second, share: [2]float64{0.45, 0.5}, waited: 130},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := newAttempts(map[string]time.Duration{})
			a.alone = tt.alone
			var gangs []string
			for i := range tt.gangs {
				gangs = append(gangs, fmt.Sprint("gang-", i))
				a.costs[gangs[i]] = tt.cost
			}
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

// TestTurnsOfGangsThatMissSessions checks that gangs are tried in whatever sessions they ask, such as in each third
// session, and that a long attempt does not keep others from theirs.
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

// TestTurnsRecover checks that all gangs of a namespace are tried in each session again once their attempts are cheap, and
// that nothing is remembered then.
func TestTurnsRecover(t *testing.T) {
	a := newAttempts(map[string]time.Duration{})
	var gangs []string
	for i := range 50 {
		gangs = append(gangs, fmt.Sprint("gang-", i))
		a.costs[gangs[i]] = time.Second
	}
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
	a.session()
	a.now = a.now.Add(2 * absentFor)
	if a.session(); len(a.buckets)+len(a.gangs) > 0 {
		t.Errorf("without gangs, %d buckets and %d gangs are remembered", len(a.buckets), len(a.gangs))
	}
}

// TestTurnsOfGangsThatHold checks that gangs that hold resources, or were promised some, have a bucket of their own: they
// do not use up the time of the namespace's other gangs, nor have their own used up, and their time is limited, too.
func TestTurnsOfGangsThatHold(t *testing.T) {
	for _, promised := range []bool{true, false} {
		a := newAttempts(nil)
		tried := map[string]int{}
		for range 200 {
			a.now = a.now.Add(time.Second)
			a.BeginSession(a.now, false)
			for _, gang := range []string{"x", "waits", "y"} {
				holds := gang != "waits"
				if !a.Has("a", gang, holds && promised) {
					continue
				}
				tried[gang]++
				a.Charge("a", gang, 400*time.Millisecond)
				if holds && !promised {
					a.Hold("a", gang)
				}
			}
		}
		if tried["waits"] < 100 {
			t.Errorf("promised: %t, beside gangs that hold, another is tried in %d sessions of 200, want half of them at least", promised, tried["waits"])
		}
		if holders := tried["x"] + tried["y"]; holders < 100 || holders > 150 {
			t.Errorf("promised: %t, two gangs that hold are tried %d times in 200 sessions, want 100 to 150", promised, holders)
		}
	}
}

// TestTurnsAreByNamespace checks that a gang has its turn whatever other namespaces have used, and that gangs have the
// same answer again in the same session.
func TestTurnsAreByNamespace(t *testing.T) {
	a := newAttempts(map[string]time.Duration{"x": time.Minute})
	a.session("x")
	a.now = a.now.Add(time.Second)
	a.BeginSession(a.now, false)
	for range 2 {
		if a.Has("a", "x", false) || !a.Has("b", "x", false) {
			t.Error("want no turn in the namespace that has a debt, and a turn in the other one")
		}
		a.Charge("b", "x", time.Minute)
	}
}
