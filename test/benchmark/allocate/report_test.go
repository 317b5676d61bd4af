// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestVerdict(t *testing.T) {
	tests := map[string]struct {
		limit          time.Duration
		upstream, ours float64
		want           string
	}{
		"fast enough":                       {0, 4, 0.1, "met"},
		"too slow":                          {0, 4, 0.11, "MISSED"},
		"within the limit too":              {time.Second, 40, 0.9, "met"},
		"fast enough and above the limit":   {time.Second, 80, 1.1, "MISSED"},
		"without upstream":                  {0, 0, 1, ""},
		"without upstream, above the limit": {time.Second, 0, 1.1, "MISSED"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := comparison{work: work{ratio: 40, limit: tc.limit}, ours: &result{Seconds: tc.ours}}
			if tc.upstream > 0 {
				c.upstream = &result{Seconds: tc.upstream}
			}
			if got := c.verdict(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestABarThatWasNotMeasuredIsNotMet checks a work whose bar is relative to another work. It has no verdict if the
// other work was not measured.
func TestABarThatWasNotMeasuredIsNotMet(t *testing.T) {
	c := comparison{work: work{ratio: 40, like: "singles"}, upstream: &result{Seconds: 40}, ours: &result{Seconds: 0.5}}
	if got := c.verdict(); got != "" {
		t.Errorf("got %q without the other, want nothing", got)
	}
	if c.like = (&result{Seconds: 0.4}); c.verdict() != "met" {
		t.Errorf("got %q with the other, want met", c.verdict())
	}
}

func TestReport(t *testing.T) {
	ib := work{name: "ib", ratio: 40, limit: 200 * time.Millisecond, shape: shape{gangs: 1, gangSize: 512}}
	comparisons := []comparison{{
		work:     ib,
		upstream: &result{Runs: 1, Seconds: 20, OpenSeconds: 0.1, CloseSeconds: 0.001, Allocations: 2e8, Bytes: 27e9, Placed: 500, Hops: &hopCount{1.4, 1.5}},
		ours:     &result{Runs: 5, Seconds: 0.1, OpenSeconds: 0.05, CloseSeconds: 0.0005, Allocations: 1e5, Bytes: 5e6, Placed: 512, Hops: &hopCount{0.006, 1.5}},
	}}
	all := []series{{"nodes", []point{{1, result{Seconds: 1}}, {2, result{Seconds: 2}}, {4, result{Seconds: 5}}}}}
	var out strings.Builder
	if err := report(&out, comparisons, all); err == nil || err.Error() != "nodes: the time grew more than linearly from 2 to 4" {
		t.Errorf("error %v", err)
	}
	var got []string
	for text := range strings.Lines(out.String()) {
		fields := strings.Join(strings.Fields(text), " ")
		for _, start := range []string{"ib ", "1 1 s", "2 2 s", "4 5 s", "!"} {
			if strings.HasPrefix(fields, start) {
				got = append(got, fields)
			}
		}
	}
	want := []string{
		"ib 20 s 100 ms 200x 40x, 200 ms met 500 512 100 ms 50 ms 1 ms 500 us",
		"ib 200 M 0.1 M 2.7e+04 MB 5 MB 1 5",
		"ib 1.400 0.006 1.500",
		"1 1 s 0 MB 0",
		"2 2 s 2.00 linear or better 0 MB 0",
		"4 5 s 2.50 MORE THAN LINEAR 0 MB 0",
		"! ib: of 512 pods upstream placed 500, ours 512",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s\n%s", diff, out.String())
	}
}

func TestShortfalls(t *testing.T) {
	side := func(seconds float64, placed int) *result { return &result{Seconds: seconds, Placed: placed} }
	w := work{name: "w", ratio: 40}
	tests := map[string]struct {
		comparison comparison
		want       string
	}{
		"none":                {comparison{w, side(40, 5), side(1, 5), nil}, ""},
		"too slow":            {comparison{w, side(39, 5), side(1, 5), nil}, "w: the bar of 40x was missed"},
		"fewer placed":        {comparison{w, side(40, 5), side(1, 4), nil}, "w: ours placed 4 pods, upstream 5"},
		"more placed":         {comparison{w, side(40, 5), side(1, 6), nil}, ""},
		"ours alone":          {comparison{w, nil, side(1, 5), nil}, ""},
		"above the limit":     {comparison{work{name: "w", ratio: 40, limit: time.Second}, nil, side(2, 5), nil}, "w: the bar of 40x, 1 s was missed"},
		"not like alike pods": {comparison{work{name: "w", ratio: 40, like: "v"}, nil, side(1.4, 5), side(1, 5)}, "w: the bar of 40x, 1.3x of v was missed"},
		"like alike pods":     {comparison{work{name: "w", ratio: 40, like: "v"}, nil, side(1.2, 5), side(1, 5)}, ""},
		"too slow again":      {comparison{work{name: "w", again: time.Second}, nil, &result{AgainSeconds: 2}, nil}, "w: the bar of then 1 s was missed"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := shortfalls([]comparison{tt.comparison}, nil); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
