// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sessionsOf plays a session every 10 s and returns the pauses of the holder, as minute of the beginning and length in minutes. The holder holds in
// sessions in which it wants to and may.
func sessionsOf(h *Holds, minutes int, wants func(session int, minute float64) bool) (pauses [][2]int) {
	begin, former := time.Unix(1_000_000, 0), time.Time{}
	for session := range minutes * 6 {
		now := begin.Add(time.Duration(session) * 10 * time.Second)
		h.beginSession(now)
		holder := Holder{"q", "a"}
		if h.PausedUntil(holder, now).IsZero() && wants(session, now.Sub(begin).Minutes()) {
			h.Note(holder, now)
		}
		if until := h.PausedUntil(holder, now); !until.IsZero() && until != former {
			former = until
			pauses = append(pauses, [2]int{int(now.Sub(begin).Minutes()), int(until.Sub(now).Minutes())})
		}
	}
	return pauses
}

// TestHoldsAreBounded: gangs of a namespace in a queue hold idle resources for 5 minutes in all, and then pause.
func TestHoldsAreBounded(t *testing.T) {
	tests := map[string]struct {
		wants func(session int, minute float64) bool
		want  [][2]int
	}{
		"always": {
			wants: func(int, float64) bool { return true },
			want:  [][2]int{{5, 5}, {15, 10}, {30, 20}, {55, 40}, {100, 60}, {165, 60}, {230, 60}},
		},
		"for a minute of each two, as with gangs that are made again": {
			wants: func(_ int, minute float64) bool { return int(minute)%2 == 0 && minute < 20 },
			want:  [][2]int{{10, 5}},
		},
		"in every second session, with others served between": {wants: func(session int, _ float64) bool { return session%2 == 0 }},
		"for 4 minutes every 75":                              {wants: func(_ int, minute float64) bool { return int(minute)%75 < 4 }},
		"for 6 minutes every 75: the doubling ends":           {wants: func(_ int, minute float64) bool { return int(minute)%75 < 6 }, want: [][2]int{{5, 5}, {80, 5}, {155, 5}, {230, 5}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := &Holds{}
			if diff := cmp.Diff(tt.want, sessionsOf(h, 240, tt.wants)); diff != "" {
				t.Errorf("pauses (-want +got):\n%s", diff)
			}
			late := time.Unix(2_000_000, 0)
			if h.beginSession(late); len(h.of) > 0 {
				t.Errorf("%v is remembered a long time later", h.of)
			}
		})
	}
}

// TestAPauseIsOfItsHolder: other namespaces in the queue, and other queues of the namespace, hold idle resources as before.
func TestAPauseIsOfItsHolder(t *testing.T) {
	h, now := &Holds{}, time.Unix(1_000_000, 0)
	for range 40 {
		h.beginSession(now)
		h.Note(Holder{"q", "a"}, now)
		now = now.Add(10 * time.Second)
	}
	for holder, want := range map[Holder]bool{{"q", "a"}: true, {"q", "b"}: false, {"r", "a"}: false} {
		if got := !h.PausedUntil(holder, now).IsZero(); got != want {
			t.Errorf("%v is paused: %t, want %t", holder, got, want)
		}
	}
}
