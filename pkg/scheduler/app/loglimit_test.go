// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestOnePlaceDoesNotFillTheLog: of what one place logs of errors the first are passed on, and how many are not; other places,
// and what is no warning, are not held up.
func TestOnePlaceDoesNotFillTheLog(t *testing.T) {
	var out bytes.Buffer
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	limit := &logLimit{out: &out, now: func() time.Time { return now }, places: map[string]int{}}
	log := func(times int, severity, place string) {
		for i := range times {
			line := fmt.Sprintf("%s0101 12:00:00.000000   25416 %s] line %d\n", severity, place, i)
			if n, err := limit.Write([]byte(line)); n != len(line) || err != nil {
				t.Fatalf("Write returned %d, %v", n, err)
			}
		}
	}
	count := func() map[string]int {
		counts := map[string]int{}
		for line := range strings.Lines(out.String()) {
			counts[line[:1]+" "+placeOf([]byte(line))]++
		}
		return counts
	}
	log(linesOfAPlace+1_000, "E", "cache.go:92")
	log(linesOfAPlace, "W", "cache.go:93")
	log(linesOfAPlace+50, "I", "cache.go:94")
	if got := count(); got["E cache.go:92"] != linesOfAPlace || got["W cache.go:93"] != linesOfAPlace || got["I "] != linesOfAPlace+50 || len(got) != 3 {
		t.Errorf("lines by place: %v", got)
	}
	out.Reset()
	now = now.Add(logPeriod)
	log(1, "E", "cache.go:92")
	want := "1000 more lines logged at cache.go:92 since 12:00:00 are left out\nE0101 12:00:00.000000   25416 cache.go:92] line 0\n"
	if out.String() != want {
		t.Errorf("after a minute was logged\n%swant\n%s", out.String(), want)
	}
}
