package main

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTrials(t *testing.T) {
	tests := map[string]struct {
		args []string
		want []trialKey
	}{
		"kube-scheduler is measured in the live mode alone": {
			args: []string{"--schedulers", "kube,ours", "--mode", "pglast,live"},
			want: []trialKey{{ours, pglast, full, 1}, {kube, live, full, 1}, {ours, live, full, 1}},
		},
		"runs take turns, so that a slow hour of the machine hits all schedulers": {
			args: []string{"--schedulers", "upstream, ours", "--mode", "live", "--runs", "2"},
			want: []trialKey{{upstream, live, full, 1}, {ours, live, full, 1}, {upstream, live, full, 2}, {ours, live, full, 2}},
		},
		"pods are nominated in the pglast mode alone": {
			args: []string{"--schedulers", "ours", "--placement", "trivial,nominated"},
			want: []trialKey{{ours, live, trivial, 1}, {ours, pglast, trivial, 1}, {ours, pglast, nominated, 1}},
		},
		"trivial placement beside its limit": {
			args: []string{"--schedulers", "ours,raw", "--mode", "pglast", "--placement", "trivial"},
			want: []trialKey{{ours, pglast, trivial, 1}, {raw, pglast, trivial, 1}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p, err := parsePlan(tc.args, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, p.trials()); diff != "" {
				t.Errorf("trials (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParsePlanRefuses(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string
	}{
		"an unknown scheduler":             {[]string{"--schedulers", "ours,theirs"}, `"theirs" is none of`},
		"an unknown mode":                  {[]string{"--mode", "upfront"}, `"upfront" is none of`},
		"more pods than the nodes take":    {[]string{"--nodes", "1", "--gangs", "1"}, "do not fit"},
		"no pods":                          {[]string{"--gang-size", "0"}, "1 or more"},
		"an argument that belongs nowhere": {[]string{"live"}, "unexpected arguments"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parsePlan(tc.args, io.Discard)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestLoadGoesRoundTheNodes(t *testing.T) {
	p := &plan{gangs: 2, gangSize: 3}
	var got []string
	for _, g := range load(trialKey{Scheduler: ours, Placement: trivial}, p, []string{"a", "b"}) {
		for _, pod := range g.pods {
			got = append(got, pod.Name+" on "+pod.Spec.NodeSelector["kubernetes.io/hostname"])
		}
	}
	want := []string{
		"gang-0000-000 on a", "gang-0000-001 on b", "gang-0000-002 on a",
		"gang-0001-000 on b", "gang-0001-001 on a", "gang-0001-002 on b",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
}
