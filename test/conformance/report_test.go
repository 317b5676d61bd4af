// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// everything covers all cases.
func everything(string, string) bool { return true }

func TestPrintFailsOnDifferencesThatAreNotAccepted(t *testing.T) {
	cases := map[string]struct {
		upstream, ours verdict
		accepted       string
		want           bool
	}{
		"both pass":                             {upstream: pass, ours: pass},
		"both skip":                             {upstream: skip, ours: skip},
		"ours is better":                        {upstream: fail, ours: pass},
		"ours fails":                            {upstream: pass, ours: fail, want: true},
		"ours skips":                            {upstream: pass, ours: skip, want: true},
		"ours was not run":                      {upstream: pass, ours: notRun, want: true},
		"ours passes when it is tried again":    {upstream: pass, ours: flaky, want: true},
		"both pass when they are tried again":   {upstream: flaky, ours: flaky},
		"upstream's is flaky and ours fails":    {upstream: flaky, ours: fail, want: true},
		"ours fails, and that is accepted":      {upstream: pass, ours: fail, accepted: "it looks too early"},
		"upstream's result is unknown":          {upstream: unknown, ours: pass, want: true},
		"a failure is accepted, and it passes":  {upstream: pass, ours: pass, accepted: "it looks too early"},
		"a flaky one is accepted, and it fails": {upstream: pass, ours: fail, accepted: "it looks too early"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := result{part: "hypernode", name: "a spec", upstream: tc.upstream, ours: tc.ours}
			other := result{part: "hypernode", name: "another", upstream: pass, ours: pass}
			accepted := map[string]string{}
			if tc.accepted != "" {
				accepted[r.key()] = tc.accepted
			}
			var out strings.Builder
			err := compare(results{r.key(): r, other.key(): other}, nil, accepted, everything).print(&out)
			if (err != nil) != tc.want {
				t.Errorf("the error is %v; should it fail: %t\n%s", err, tc.want, out.String())
			}
			if tc.accepted != "" && !strings.Contains(out.String(), tc.accepted) {
				t.Errorf("the reason is not reported:\n%s", out.String())
			}
			needless := tc.accepted != "" && tc.ours == pass
			if told := strings.Contains(out.String(), "it passes this time: hypernode: a spec"); told != needless {
				t.Errorf("the pass of an accepted failure is reported: %t, want %t:\n%s", told, needless, out.String())
			}
		})
	}
}

func TestAnExpectedTestThatDoesNotRunIsADifference(t *testing.T) {
	expected := map[string]verdict{"hypernode\ta spec": pass, "tables plugins/gang\tTestGang": pass}
	cases := map[string]struct {
		opts options
		want []string
	}{
		"of all":       {opts: options{parts: []string{"hypernode", tablesPart}, focus: regexp.MustCompile("")}, want: []string{"a spec", "TestGang"}},
		"of a part":    {opts: options{parts: []string{tablesPart}, focus: regexp.MustCompile("")}, want: []string{"TestGang"}},
		"of a package": {opts: options{parts: []string{"hypernode", tablesPart}, focus: regexp.MustCompile("gang$")}, want: []string{"TestGang"}},
		"of specs":     {opts: options{parts: []string{"hypernode", tablesPart}, focus: regexp.MustCompile("^a")}, want: []string{"a spec"}},
		"of nothing":   {opts: options{parts: []string{"schedulingbase"}, focus: regexp.MustCompile("")}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			report := compare(results{}, expected, nil, tc.opts.covers)
			var got []string
			for _, row := range report.rows {
				got = append(got, row.name)
				if row.ours != notRun || !row.differs() {
					t.Errorf("%s: ours is %q and differs: %t", row.name, row.ours, row.differs())
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
			if err := report.print(io.Discard); err == nil {
				t.Error("it does not fail")
			}
		})
	}
}

func TestAcceptedDifferencesOfNoCaseFail(t *testing.T) {
	r := result{part: "hypernode", name: "a spec", upstream: pass, ours: pass}
	accepted := map[string]string{"hypernode\ta spec of old": "it looks too early"}
	err := compare(results{r.key(): r}, nil, accepted, everything).print(io.Discard)
	if err == nil || !strings.Contains(err.Error(), "a spec of old") {
		t.Errorf("the error is %v", err)
	}
}

func TestThePageIsOfWholeRuns(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want bool
	}{
		"a whole run":          {args: []string{"--docs", "x.md"}},
		"a part, without page": {args: []string{"--parts", "tables", "--focus", "actions"}},
		"a part":               {args: []string{"--docs", "x.md", "--parts", "tables"}, want: true},
		"some specs":           {args: []string{"--docs", "x.md", "--focus", "Case 1"}, want: true},
		"upstream's scheduler": {args: []string{"--docs", "x.md", "--upstream"}, want: true},
		"no such part":         {args: []string{"--parts", "none"}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(append(tc.args, "--work", t.TempDir())); (err != nil) != tc.want {
				t.Errorf("the error is %v; should it fail: %t", err, tc.want)
			}
		})
	}
}

func TestASpecThatPassesWhenTriedAgainIsFlaky(t *testing.T) {
	failed := result{ours: fail, why: "it waited in vain"}
	cases := map[string]struct {
		runs []result
		// once reports whether the spec's failure is accepted, so it is tried once only.
		once bool
		want result
	}{
		"it passes":                      {runs: []result{{ours: pass}}, want: result{ours: pass}},
		"it skips":                       {runs: []result{{ours: skip, why: "for later"}}, want: result{ours: skip, why: "for later"}},
		"it fails":                       {runs: []result{failed, failed}, want: failed},
		"it fails, then passes":          {runs: []result{failed, {ours: pass}}, want: result{ours: flaky, why: "it passed when it was tried again; before: it waited in vain"}},
		"it fails, and that is accepted": {runs: []result{failed}, once: true, want: failed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got result
			tried := 0
			tries := usualTries
			if tc.once {
				tries = 1
			}
			err := judge(&got, tries, func(try int) error {
				tried, got = try, tc.runs[try-1]
				return nil
			})
			if err != nil || tried != len(tc.runs) {
				t.Errorf("it was tried %d times: %v", tried, err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(result{})); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
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
		if _, ok := expected[key]; !ok {
			t.Errorf("%s accepts %q, which %s does not have", acceptedFile, key, expectedFile)
		}
	}
}

func TestPageIsWrittenWhereItIsAskedFor(t *testing.T) {
	for docs, want := range map[string]string{"docs/conformance.md": "/checkout/docs/conformance.md", "/tmp/page.md": "/tmp/page.md"} {
		if got := (options{root: "/checkout", docs: docs}).page(); got != want {
			t.Errorf("--docs %s writes %s, want %s", docs, got, want)
		}
	}
}
