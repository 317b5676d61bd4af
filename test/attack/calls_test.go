// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestCallsForAGangCountOnceWithinItsTime(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	for name, tc := range map[string]struct {
		calls []string // resource, object, begin and end in ms
		want  int      // ms between 100 and 1000
	}{
		"no call":                           {},
		"one after another":                 {calls: []string{"podgroups small-1 200 300", "pods small-1-0 400 450"}, want: 150},
		"at a time":                         {calls: []string{"pods small-1-1 350 500", "pods small-1-0 300 400"}, want: 200},
		"one within another":                {calls: []string{"pods small-1-1 300 500", "pods small-1-0 350 400"}, want: 200},
		"of claims":                         {calls: []string{"resourceclaims small-1-0 300 400"}, want: 100},
		"before and after it":               {calls: []string{"podgroups small-1 0 150", "pods small-1-0 900 2000", "pods small-1-1 2000 2100"}, want: 150},
		"of another gang":                   {calls: []string{"pods small-10-0 300 400", "podgroups small-11 300 400"}},
		"of a gang that is named like them": {calls: []string{"podgroups small 300 400"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, err := audited(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			var text []byte
			for _, call := range tc.calls {
				var resource, object string
				var from, to int
				if _, err := fmt.Sscan(call, &resource, &object, &from, &to); err != nil {
					t.Fatal(err)
				}
				text = fmt.Appendf(text, `{"objectRef":{"resource":%q,"namespace":"victim","name":%q},"requestReceivedTimestamp":%q,"stageTimestamp":%q}`+"\n",
					resource, object, at(from).Format(time.RFC3339Nano), at(to).Format(time.RFC3339Nano))
			}
			for _, part := range [][]byte{text[:len(text)/2], text} { // The second call has the rest of a line.
				if err := os.WriteFile(filepath.Join(filepath.Dir(c.path), "audit.log"), part, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := c.read(); err != nil {
					t.Fatal(err)
				}
			}
			if got, want := c.within("small-1", at(100), at(1000)), time.Duration(tc.want)*time.Millisecond; got != want {
				t.Errorf("calls took %s, want %s", got, want)
			}
		})
	}
}
