// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/volcano-prebind/volcano-prebind/test/benchmark/insession"
)

func TestOneClusterHasRoomAndTheOthersOnPaperOnly(t *testing.T) {
	works := works()
	sh := works[slices.IndexFunc(works, func(w work) bool { return w.name == "ib" })].shape
	w := sh.world(hardHyperNode())
	used := map[string]int64{}
	for _, pod := range w.Pods {
		if pod.Spec.NodeName != "" {
			used[pod.Spec.NodeName] += pod.Spec.Containers[0].Resources.Requests.Cpu().Value()
		}
	}
	const need = 4
	onPaper, room := map[string]int64{}, map[string]int64{}
	for _, node := range w.Nodes {
		free := node.Status.Allocatable.Cpu().Value() - used[node.Name]
		onPaper[node.Labels[insession.ClusterLabel]] += free
		if len(node.Spec.Taints) == 0 {
			room[node.Labels[insession.ClusterLabel]] += free / need
		}
	}
	var whole []string
	for cluster, cpus := range onPaper {
		if cpus < int64(sh.gangSize)*need {
			t.Errorf("cluster %s has only %d cpus free", cluster, cpus)
		}
		if room[cluster] >= int64(sh.gangSize) {
			whole = append(whole, cluster)
		}
	}
	if len(onPaper) != 40 || !slices.Equal(whole, []string{"ib-38"}) {
		t.Errorf("of %d clusters %v have room", len(onPaper), whole)
	}
}

func TestHops(t *testing.T) {
	node := func(cluster, spine, leaf string) *v1.Node {
		n := &v1.Node{}
		n.Labels = map[string]string{insession.ClusterLabel: cluster, insession.SpineLabel: spine, insession.LeafLabel: leaf}
		return n
	}
	from := node("a", "a1", "a11")
	for want, to := range []*v1.Node{node("a", "a1", "a11"), node("a", "a1", "a12"), node("a", "a2", "a21"), node("b", "b1", "b11")} {
		if got := hops(from, to); got != want {
			t.Errorf("from %v to %v: %d hops, want %d", from.Labels, to.Labels, got, want)
		}
	}
	if got := hops(&v1.Node{}, &v1.Node{}); got != 3 {
		t.Errorf("without labels: %d hops, want 3", got)
	}
}

func TestHopsOfAGang(t *testing.T) {
	// Each leaf has two nodes for 2 pods each, and the cluster has two leaves.
	sh := shape{nodes: 32, gangs: 1, gangSize: 4, cpu: "16", clusters: 1}
	nodes := sh.nodeList()
	got := countHops(sh, map[string]string{
		"ns/gang-00000-0000": nodes[0].Name, "ns/gang-00000-0001": nodes[1].Name,
		"ns/gang-00000-0002": nodes[16].Name, "ns/gang-00000-0003": nodes[17].Name,
	})
	if got == nil || got.Placed != 1.0/3 {
		t.Fatalf("got %+v, want one hop for three pairs", got)
	}
	// 32 of the 63 other places are in the other leaf.
	if want := 32.0 / 63; got.Random < want-0.1 || got.Random > want+0.1 {
		t.Errorf("random placement has %.3f hops, want about %.3f", got.Random, want)
	}
	if got := countHops(sh, map[string]string{"ns/gang-00000-0000": nodes[0].Name}); got != nil {
		t.Errorf("got %+v for a gang in part", got)
	}
}

func TestParsePlan(t *testing.T) {
	tests := map[string]struct {
		args   []string
		rows   string
		growth bool
		err    string
	}{
		"all by default":              {nil, "cold gangs50 gangs500 singles misfits ib gathered coupled packedapart ownlabels podlabels unlike2 unlike16 unlike5 changing unlikehyper unlikecells groups50 group8 misfitgroups sizes waiting waitingapart kinds100 kindschanging kindsrefused exact claims1000 claims5000 claimgangs claimsib capacity5000 local5000 bound5000 boundlocal5000 dra1000 dra5000 dragangs sharedslices", true, ""},
		"chosen rows, in their order": {[]string{"--rows", "ib, cold"}, "ib cold", false, ""},
		"growth alone":                {[]string{"--rows", "growth"}, "", true, ""},
		"an unknown row":              {[]string{"--rows", "warm"}, "", false, `"warm" is none of cold, `},
		"no runs":                     {[]string{"--runs", "0"}, "", false, "1 or more, not 0"},
		"an argument beyond flags":    {[]string{"cold"}, "", false, "unexpected arguments"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p, err := parsePlan(tc.args, &strings.Builder{})
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got error %v, want one with %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var rows []string
			for _, w := range p.works {
				rows = append(rows, w.name)
			}
			if got := strings.Join(rows, " "); got != tc.rows || p.growth != tc.growth {
				t.Errorf("rows %q, growth %t; want %q, %t", got, p.growth, tc.rows, tc.growth)
			}
		})
	}
}
