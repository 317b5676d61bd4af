// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"strings"
	"testing"
	"time"

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
		"an unknown scheduler":                {[]string{"--schedulers", "ours,theirs"}, `"theirs" is none of`},
		"an unknown mode":                     {[]string{"--mode", "upfront"}, `"upfront" is none of`},
		"more pods than the nodes take":       {[]string{"--nodes", "1", "--gangs", "1"}, "do not fit"},
		"no pods":                             {[]string{"--gang-size", "0"}, "1 or more"},
		"more lone pods than the nodes spare": {[]string{"--lone-size", "1000"}, "20 lone gangs of 1000 pods do not fit"},
		"a cluster for each node and more":    {[]string{"--ib-clusters", "1001"}, "found 1001, want 0 to 1000"},
		"others in clusters":                  {[]string{"--ib-clusters", "40"}, "goes with --schedulers ours"},
		"trivial placement in clusters":       {[]string{"--ib-clusters", "40", "--schedulers", "ours", "--placement", "trivial"}, "goes with"},
		"gangs that no cluster takes":         {[]string{"--ib-clusters", "40", "--schedulers", "ours", "--gangs", "1", "--gang-size", "801"}, "does not fit into a cluster of 800 cpus"},
		"claims of an unknown kind":           {[]string{"--claims", "disks"}, `"disks" is none of volumes, devices`},
		"claims without preparation":          {[]string{"--claims", "volumes", "--schedulers", "ours,raw"}, "without --schedulers raw"},
		"claims and another conf":             {[]string{"--claims", "devices", "--schedulers", "ours", "--placement", "trivial"}, "goes with --placement full"},
		"preemption by a foreign scheduler":   {[]string{"--filler-cpus", "4"}, "--filler-cpus goes with --schedulers upstream,ours"},
		"preemption in clusters":              {[]string{"--filler-cpus", "4", "--schedulers", "ours", "--ib-clusters", "40"}, "without claims and clusters"},
		"fillers that leave cpus idle":        {[]string{"--schedulers", "ours", "--filler-cpus", "5"}, "found 5, want a divisor of 32"},
		"an argument that belongs nowhere":    {[]string{"live"}, "unexpected arguments"},
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

func TestAGangMustLieInOneCluster(t *testing.T) {
	s := &testbed{plan: &plan{ibClusters: 2}, clusters: map[string]string{"a": "ib-0", "b": "ib-0", "c": "ib-1"}}
	tests := map[string]struct {
		nodes []string
		want  string
	}{
		"in one":             {[]string{"a", "b"}, ""},
		"in two":             {[]string{"a", "c"}, "gang g was bound in 2 clusters, not in one: ib-0, ib-1"},
		"on an unknown node": {[]string{"a", "x"}, "in 2 clusters"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			g := s.plan.newGang(ours, "g", len(tc.nodes), nil)
			if got := g.podGroup.Annotations[modeAnnotation]; got != "required" {
				t.Errorf("annotation %s is %q", modeAnnotation, got)
			}
			for _, node := range tc.nodes {
				g.binds.add(node, time.Now())
			}
			err := s.checkClusters(g)
			if (tc.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestLoadIsSpreadOverTheNodes(t *testing.T) {
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
