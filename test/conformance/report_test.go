// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPrintFailsOnDifferencesThatAreNotAccepted(t *testing.T) {
	cases := map[string]struct {
		upstream, ours verdict
		accepted       string
		// notRunNow is a result of a run before.
		notRunNow bool
		want      bool
	}{
		"both pass":                         {upstream: pass, ours: pass},
		"both skip":                         {upstream: skip, ours: skip},
		"ours is better":                    {upstream: fail, ours: pass},
		"ours fails":                        {upstream: pass, ours: fail, want: true},
		"ours skips":                        {upstream: pass, ours: skip, want: true},
		"ours was not run":                  {upstream: pass, ours: notRun, want: true},
		"ours fails, and that is accepted":  {upstream: pass, ours: fail, accepted: "it looks too early"},
		"ours failed in a run before":       {upstream: pass, ours: fail, notRunNow: true},
		"nobody knows upstream's verdict":   {upstream: unknown, ours: pass, want: true},
		"accepted, and it passes this time": {upstream: pass, ours: pass, accepted: "it looks too early"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := result{part: "hypernode", name: "a spec", upstream: tc.upstream, ours: tc.ours}
			other := result{part: "hypernode", name: "another", upstream: pass, ours: pass}
			results := &resultFile{results: map[string]result{r.key(): r, other.key(): other}}
			accepted := map[string]string{}
			if tc.accepted != "" {
				accepted[r.key()] = tc.accepted
			}
			var out strings.Builder
			err := compare(results, nil, accepted).print(&out, map[string]bool{r.key(): !tc.notRunNow, other.key(): true})
			if (err != nil) != tc.want {
				t.Errorf("the error is %v; should it fail: %t\n%s", err, tc.want, out.String())
			}
			if tc.accepted != "" && tc.ours == fail && !strings.Contains(out.String(), tc.accepted) {
				t.Errorf("the reason is not told:\n%s", out.String())
			}
		})
	}
}

func TestCompareShowsSpecsThatWereNeverRun(t *testing.T) {
	results := &resultFile{results: map[string]result{}}
	got := compare(results, map[string]verdict{"hypernode\ta spec": pass}, nil)
	want := []row{{result: result{part: "hypernode", name: "a spec", upstream: pass, ours: notRun, why: "it is not there"}}}
	if diff := cmp.Diff(want, got.rows, cmp.AllowUnexported(row{}, result{})); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestResultsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.tsv")
	r := result{"hypernode", "a spec", pass, fail, 1500 * time.Millisecond, "it waits"}
	f := &resultFile{path: path, results: map[string]result{}}
	f.put(r)
	if err := f.write(); err != nil {
		t.Fatal(err)
	}
	got, err := readResults(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]result{r.key(): r}, got.results, cmp.AllowUnexported(result{})); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestKeptFilesAreValid(t *testing.T) {
	expected, err := readExpected(filepath.Join("../..", expectedFile))
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := readAccepted(filepath.Join("../..", acceptedFile))
	if err != nil {
		t.Fatal(err)
	}
	for key := range accepted {
		if _, ok := expected[key]; !ok && !strings.HasPrefix(key, tablesPart+" ") {
			t.Errorf("%s accepts %q, which %s does not have", acceptedFile, key, expectedFile)
		}
	}
}
