// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"testing"
)

func TestEndOfChapter(t *testing.T) {
	tests := map[string]struct {
		levels []level
		leaks  bool
	}{
		"level":                  {levels: grow(7, 0, 0)},
		"noise is no leak":       {levels: grow(7, 10, 1<<20)},
		"goroutines that add up": {levels: grow(7, 60, 0), leaks: true},
		"memory that adds up":    {levels: grow(7, 0, 20<<20), leaks: true},
		"too short to tell":      {levels: grow(6, 60, 20<<20)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := &soak{out: io.Discard, levels: map[int][]level{1: tt.levels}}
			s.endOfChapter()
			if got := len(s.violations) > 0; got != tt.leaks {
				t.Errorf("got %v, want a leak: %t", s.violations, tt.leaks)
			}
		})
	}
}

// grow returns levels that grow by this amount from one to the next.
func grow(count int, goroutines, heap float64) []level {
	levels := make([]level, count)
	for i := range levels {
		levels[i] = level{goroutines: 200 + float64(i)*goroutines, heap: 50<<20 + float64(i)*heap}
	}
	return levels
}
