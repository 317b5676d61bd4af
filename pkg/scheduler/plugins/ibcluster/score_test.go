// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

func TestScore(t *testing.T) {
	deep := nodes("a1 ib-a s1 l1", "a2 ib-a s1 l2", "b1 ib-b s1 l1")
	tests := map[string]struct {
		wish      string
		arguments []string
		pods      []*v1.Pod
		group     string
		fill      float64
		want      float64
	}{
		"a group that the gang fills":               {fill: 1, want: 100},
		"a group that is half filled":               {fill: 0.5, want: 50},
		"a group without room":                      {fill: 0, want: 0},
		"emptiest: a group that the gang fills":     {arguments: []string{"strategy: emptiest"}, fill: 1, want: 0},
		"emptiest: a group that has twice the room": {arguments: []string{"strategy: emptiest"}, fill: 0.5, want: 50},
		"the weight":                      {arguments: []string{"weight: 2.5"}, fill: 0.5, want: 125},
		"no weight":                       {arguments: []string{"weight: 0"}, fill: 0.5, want: 0},
		"a gang without a wish":           {wish: "mode=none", fill: 1, want: 0},
		"all members are there but one":   {pods: members("g/0@a1", "g/1"), group: "ib-a", fill: 0.25, want: 25 + 400*(1+0.5)/2},
		"in the cluster, in another leaf": {pods: members("g/0@a1", "g/1"), group: "ib-a/s1/l2", fill: 0.25, want: 25},
		"in the leaf":                     {pods: members("g/0@a1", "g/1"), group: "ib-a/s1/l1", fill: 0.25, want: 25 + 400*(1+0.5)/2},
		"a cluster without members":       {pods: members("g/0@a1", "g/1"), group: "ib-b", fill: 1, want: 100},
		"a cluster a member is nominated to": {
			pods: []*v1.Pod{member("g/0", "").Nominated("a1").Obj(), member("g/1", "").Obj()}, group: "ib-a", fill: 0.5, want: 50 + 200*(1+0.5)/2,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.pods == nil {
				tt.pods, tt.group = members("g/0"), "ib-a"
			}
			if tt.wish == "" {
				tt.wish = "mode=preferred"
			}
			f := open(t, sessiontest.ClusterSpec{Nodes: deep, PodGroups: []*v1beta1.PodGroup{gang("g", 1, tt.wish).Obj()}, Pods: tt.pods}, tt.arguments...)
			if !f.session.Placements.ScoredBeforeTrial() {
				t.Error("the plugin declares that its score depends on the placement")
			}
			group := f.plugin.session.forest.Find(tt.group)
			got, err := f.session.Placements.NodeGroupScore(f.job("g"), &framework.NodeGroupTrial{Group: group, Fill: tt.fill})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("score (-want +got):\n%s", diff)
			}
		})
	}
}

// TestScoreCountsWhatTheSessionPlaced checks that members placed beyond the minimum prefer the leaves of the members
// placed before.
func TestScoreCountsWhatTheSessionPlaced(t *testing.T) {
	f := open(t, sessiontest.ClusterSpec{
		Nodes: nodes("a1 ib-a s1 l1", "a2 ib-a s1 l2"), PodGroups: []*v1beta1.PodGroup{gang("g", 1, "mode=required").Obj()},
		Pods: members("g/0", "g/1", "g/2", "g/3"),
	})
	score := func() float64 {
		got, err := f.session.Placements.NodeGroupScore(f.job("g"), &framework.NodeGroupTrial{Group: f.plugin.session.forest.Find("ib-a/s1/l1"), Fill: 0.5})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	got := []float64{score()}
	f.place(t, "g/0", "a2")
	got = append(got, score())
	f.place(t, "g/1", "a1")
	got = append(got, score())
	statement := f.place(t, "g/2", "a1")
	got = append(got, score())
	statement.Discard()
	got = append(got, score())
	if diff := cmp.Diff([]float64{50, 50, 50 + 250, 50 + 300, 50 + 250}, got); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
}

// TestAPreferredGangIsNotCountedAgain: placing members of a preferred gang outside of the cluster with most members
// must not build a new scope, because that counts all members again.
func TestAPreferredGangIsNotCountedAgain(t *testing.T) {
	f := open(t, sessiontest.ClusterSpec{
		Nodes: two(), PodGroups: []*v1beta1.PodGroup{gang("g", 1, "mode=preferred").Obj()},
		Pods: append(members("g/0@a1", "g/1", "g/2"), member("g/3", "").Nominated("b1").Obj()),
	})
	s := f.plugin.session
	b, job := s.forest.Find("ib-b"), f.job("g")
	before := s.scopeOf(job)
	f.place(t, "g/1", "b1")
	f.place(t, "g/2", "b2")
	if p := s.scopeOf(job); p != before || p.members[b] != 2 || p.nominated[b] != 1 {
		t.Errorf("the scope was built again: %t; it counts %d members in ib-b, want 2, and %d nominated, want 1", p != before, p.members[b], p.nominated[b])
	}
	f.place(t, "g/3", "b1")
	if p := s.scopeOf(job); p.members[b] != 3 || p.nominated[b] != 0 {
		t.Errorf("the scope counts %d members in ib-b, want 3, and %d nominated, want 0", p.members[b], p.nominated[b])
	}
}
