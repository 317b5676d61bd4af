// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volcano-prebind/volcano-prebind/test/conformance/adapter"
)

func TestReadCases(t *testing.T) {
	cases := map[string]struct {
		log  string
		want map[string]verdict
	}{
		"tests that open no session are no cases": {
			log:  "=== RUN   TestSum\n--- PASS: TestSum (0.00s)\n",
			want: map[string]verdict{},
		},
		"leaves that opened sessions are": {
			log: "=== RUN   TestA\n" + adapter.Mark + "\n=== RUN   TestA/one\n" + adapter.Mark + "\n=== RUN   TestA/two\n" + adapter.Mark +
				"\n--- FAIL: TestA (0.10s)\n    --- PASS: TestA/one (0.00s)\n    --- FAIL: TestA/two (0.10s)\n",
			want: map[string]verdict{"TestA/one": pass, "TestA/two": fail},
		},
		"a case in which the binary panics fails": {
			log:  "=== RUN   TestA\n" + adapter.Mark + "\npanic: nil map\n",
			want: map[string]verdict{"TestA": fail},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(tc.log), 0o600); err != nil {
				t.Fatal(err)
			}
			found, err := readCases(path)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]verdict{}
			for name, c := range found {
				got[name] = c.verdict
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("verdicts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMergeCases(t *testing.T) {
	failed := &tableCase{verdict: fail, why: []string{"want 2", "got 1"}}
	got := mergeCases("tables plugins/gang",
		cases{"both": {verdict: pass}, "upstream only": {verdict: pass}, "worse": {verdict: pass}, "both fail": failed},
		cases{"both": {verdict: pass}, "ours only": {verdict: pass}, "worse": failed, "both fail": failed})
	want := []result{
		{part: "tables plugins/gang", name: "both", upstream: pass, ours: pass},
		{part: "tables plugins/gang", name: "both fail", upstream: unknown, ours: fail, why: "upstream's own session fails it here: want 2 / got 1"},
		{part: "tables plugins/gang", name: "ours only", upstream: unknown, ours: pass, why: "upstream's own session was not opened here"},
		{part: "tables plugins/gang", name: "upstream only", upstream: pass, ours: notRun},
		{part: "tables plugins/gang", name: "worse", upstream: pass, ours: fail, why: "want 2 / got 1"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(result{})); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}
