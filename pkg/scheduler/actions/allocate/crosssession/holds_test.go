// SPDX-License-Identifier: Apache-2.0

package crosssession

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// play simulates a session every 10 s. Gangs of the namespace hold idle resources in the sessions in which wants
// returns true and the namespace is not paused. It returns the minutes in which pauses begin, the length of the
// longest pause, and the total time of the holds, in minutes.
func play(h *Holds, minutes int, wants func(session int, minute float64) bool) (pauses []int, longest, kept float64) {
	begin, former, holds := time.Unix(1_000_000, 0), time.Time{}, false
	for session := range minutes * 6 {
		now := begin.Add(time.Duration(session) * 10 * time.Second)
		h.beginSession(now)
		held := holds
		holds = h.PausedUntil("a", now).IsZero() && wants(session, now.Sub(begin).Minutes())
		if holds {
			h.NoteHold("a", now, false)
			h.NoteHold("a", now, true) // another gang
		}
		if held && holds {
			kept += 1. / 6
		}
		if until := h.PausedUntil("a", now); !until.IsZero() && until != former {
			former = until
			pauses, longest = append(pauses, int(now.Sub(begin).Minutes())), max(longest, until.Sub(now).Minutes())
		}
	}
	return pauses, longest, kept
}

// TestHoldsAreBounded checks that a namespace whose gangs hold idle resources for 5 minutes is paused for 20, unless
// they hold resources for less than a fifth of the time.
func TestHoldsAreBounded(t *testing.T) {
	tests := map[string]struct {
		wants func(session int, minute float64) bool
		want  []int
	}{
		"always": {
			wants: func(int, float64) bool { return true },
			want:  []int{5, 30, 55, 80, 105, 130, 155, 180, 205, 230},
		},
		"for a minute of each two, as with gangs that are made again": {
			wants: func(_ int, minute float64) bool { return int(minute)%2 == 0 && minute < 20 },
			want:  []int{16},
		},
		"for 2 minutes of each 12":                            {wants: func(_ int, minute float64) bool { return int(minute)%12 < 2 }},
		"for 4 minutes of each 24":                            {wants: func(_ int, minute float64) bool { return int(minute)%24 < 4 }},
		"for 6 minutes of each 75":                            {wants: func(_ int, minute float64) bool { return int(minute)%75 < 6 }, want: []int{5, 80, 155, 230}},
		"for a moment, and from 19 minutes later on":          {wants: func(_ int, minute float64) bool { return minute < 0.1 || minute >= 19 && minute < 40 }, want: []int{24}},
		"in every second session, with others served between": {wants: func(session int, _ float64) bool { return session%2 == 0 }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := &Holds{}
			pauses, longest, _ := play(h, 240, tt.wants)
			if diff := cmp.Diff(tt.want, pauses); diff != "" {
				t.Errorf("pauses (-want +got):\n%s", diff)
			}
			if longest > 20 {
				t.Errorf("a pause lasts for %.1f minutes, want 20", longest)
			}
			late := time.Unix(2_000_000, 0)
			if h.beginSession(late); len(h.of) > 0 {
				t.Errorf("%v is remembered a long time later", h.of)
			}
		})
	}
}

// TestATenantHoldsForAFifthOfTheTime checks that a tenant holds resources for a fifth of the time at most, however
// often it replaces its gangs.
func TestATenantHoldsForAFifthOfTheTime(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	most := 0.
	for range 200 {
		on, off := 2+random.IntN(60), random.IntN(60)
		begins := random.IntN(60)
		_, _, kept := play(&Holds{}, 24*60, func(session int, _ float64) bool { return (session+begins)%(on+off) < on })
		most = max(most, kept)
	}
	if day := 24 * 60.; most > day/5+10 || most < day/5-5 {
		t.Errorf("a tenant keeps others from idle resources for %.0f of %.0f minutes, want a fifth at most", most, day)
	}
}

// TestALongSessionCountsForNoLongerPause checks that a long session does not lengthen a pause: a namespace whose
// gangs hold resources in two sessions that are 15 minutes apart is paused for 20 minutes.
func TestALongSessionCountsForNoLongerPause(t *testing.T) {
	h, now := &Holds{}, time.Unix(1_000_000, 0)
	h.beginSession(now)
	h.NoteHold("a", now, false)
	now = now.Add(15 * time.Minute)
	h.beginSession(now)
	h.NoteHold("a", now, false)
	if got, want := h.PausedUntil("a", now), now.Add(20*time.Minute); got != want {
		t.Errorf("the pause ends at %v, want %v", got, want)
	}
}

// TestAPauseIsOfItsNamespace checks that a pause applies to one namespace only: gangs of other namespaces still hold
// idle resources.
func TestAPauseIsOfItsNamespace(t *testing.T) {
	h, now := &Holds{}, time.Unix(1_000_000, 0)
	for range 31 {
		h.beginSession(now)
		h.NoteHold("a", now, false)
		now = now.Add(10 * time.Second)
	}
	for namespace, want := range map[string]bool{"a": true, "b": false} {
		if got := !h.PausedUntil(namespace, now).IsZero(); got != want {
			t.Errorf("%s is paused: %t, want %t", namespace, got, want)
		}
	}
}

// TestHoldsBesideVictimsFillAQuarter checks that a namespace is paused only after four times as long if its gangs wait
// for victims that were evicted for them. This does not apply if another gang of the namespace holds resources without
// victims, in whatever order the gangs are placed.
func TestHoldsBesideVictimsFillAQuarter(t *testing.T) {
	for name, tt := range map[string]struct {
		promised []bool
		want     time.Duration
	}{
		"beside victims": {[]bool{true}, 20 * time.Minute}, "several": {[]bool{true, true}, 20 * time.Minute},
		"and another without": {[]bool{true, false, true}, 5 * time.Minute}, "another before it": {[]bool{false, true}, 5 * time.Minute},
		"others before and after it": {[]bool{false, true, false}, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			h, begin := &Holds{}, time.Unix(1_000_000, 0)
			now := begin
			for h.PausedUntil("a", now).IsZero() && now.Sub(begin) < time.Hour {
				now = now.Add(10 * time.Second)
				h.beginSession(now)
				for _, promised := range tt.promised {
					h.NoteHold("a", now, promised)
				}
			}
			if got := now.Sub(begin) - 10*time.Second; got != tt.want {
				t.Errorf("the namespace is paused after %s, want %s", got, tt.want)
			}
		})
	}
}
