// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/enqueue"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// ofManyClasses returns members of gang g whose requests differ by 1m cpu each.
func ofManyClasses(n, milliCPU int) []*v1.Pod {
	var pods []*v1.Pod
	for i := range n {
		pods = append(pods, sized(fmt.Sprintf("%dm", milliCPU+i), fmt.Sprint("g/", i))...)
	}
	return pods
}

// TestVoteOnManyTaskClasses: if a gang has more task classes than the vote compares, similar classes are merged.
// Clusters have two nodes of 4 cpu.
func TestVoteOnManyTaskClasses(t *testing.T) {
	tests := map[string]struct {
		minMember int32
		pods      []*v1.Pod
		message   string
	}{
		"as many as are needed fit": {2, ofManyClasses(200, 3900), ""},
		"one too many is needed": {3, ofManyClasses(200, 2100),
			"none of 2 node groups fits the 3 pods needed, even when idle: ib-a fits 2 of the 200 that request cpu 2100m or more"},
		"all are larger than a node": {1, ofManyClasses(200, 4001),
			"none of 2 node groups fits the 1 pod needed, even when idle: ib-a fits none of the 4 that request cpu 4001m or more"},
		"their sum is too much": {19, ofManyClasses(200, 500),
			"none of 2 node groups fits the 19 pods needed, even when idle: ib-a has cpu 8, enough for 15 of them"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g := gang("g", tt.minMember, "mode=required").MinResources(schedtest.Resources{"cpu": "1"}).Phase(v1beta1.PodGroupPending).Obj()
			f := open(t, sessiontest.ClusterSpec{Nodes: two(), PodGroups: []*v1beta1.PodGroup{g}, Pods: tt.pods})
			f.session.Run(enqueue.New())
			reason, _ := f.session.Session.PendingReason("ns/g")
			if tt.message == "" && strings.Contains(reason.Message, "even when idle") || tt.message != "" && reason.Message != tt.message {
				t.Errorf("the message is %q, want %q", reason.Message, tt.message)
			}
		})
	}
}

// TestTheVoteFollowsTheNodes checks that the state kept from session to session is dropped when the nodes that it
// describes change.
func TestTheVoteFollowsTheNodes(t *testing.T) {
	fabric := func() []*v1.Node { return nodes("a1 ib-a", "a2 ib-a", "b1 ib-b", "b2 ib-b") }
	spec := func(nodes []*v1.Node, minMember int32, wishes []string, minResources string, cpu string) *sessiontest.ClusterSpec {
		g := gang("g", minMember, append([]string{"mode=required"}, wishes...)...).MinResources(schedtest.Resources{"cpu": minResources})
		return &sessiontest.ClusterSpec{Nodes: nodes, PodGroups: []*v1beta1.PodGroup{g.Phase(v1beta1.PodGroupPending).Obj()}, Pods: sized(cpu, "g/0", "g/1", "g/2")}
	}
	larger, moved := fabric(), fabric()
	larger[2].Status.Allocatable = v1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("10")}
	moved[0].Labels["ibcluster"] = "ib-b"
	listed := []string{"clusters=ib-b"}
	steps := []struct {
		name string
		spec *sessiontest.ClusterSpec
		want scheduling.PodGroupPhase
		// kept reports whether the state is kept.
		kept bool
	}{
		{"each node takes one of three", spec(fabric(), 3, nil, "7500m", "2500m"), scheduling.PodGroupPending, false},
		{"nothing changed", spec(fabric(), 3, nil, "7500m", "2500m"), scheduling.PodGroupPending, true},
		{"two are enough", spec(fabric(), 2, nil, "7500m", "2500m"), scheduling.PodGroupInqueue, true},
		{"members ask for less", spec(fabric(), 3, nil, "7500m", "2"), scheduling.PodGroupInqueue, true},
		{"as at first", spec(fabric(), 3, nil, "7500m", "2500m"), scheduling.PodGroupPending, true},
		{"minResources are more", spec(fabric(), 3, nil, "9", "2"), scheduling.PodGroupPending, true},
		{"a node is larger", spec(larger, 3, nil, "7500m", "2500m"), scheduling.PodGroupInqueue, false},
		{"and is its cluster's", spec(larger, 3, []string{"clusters=ib-a"}, "7500m", "2500m"), scheduling.PodGroupPending, true},
		{"which is another", spec(larger, 3, listed, "7500m", "2500m"), scheduling.PodGroupInqueue, true},
		{"a node is in another cluster", spec(moved, 3, listed, "7500m", "2500m"), scheduling.PodGroupInqueue, false},
		{"and not in the one it was in", spec(moved, 3, []string{"clusters=ib-a"}, "3", "2"), scheduling.PodGroupPending, true},
		{"a node is away", spec(moved[1:], 3, listed, "7500m", "2500m"), scheduling.PodGroupPending, false},
	}
	f := open(t, sessiontest.ClusterSpec{})
	for _, step := range steps {
		before := f.plugin.memory.empty
		f.reopen(t, step.spec)
		f.session.Run(enqueue.New())
		if got := f.job("g").PodGroup.Status.Phase; got != step.want {
			t.Errorf("%s: the gang is %s, want %s", step.name, got, step.want)
		}
		if kept := f.plugin.memory.empty == before; kept != step.kept {
			t.Errorf("%s: the state is kept: %t, want %t", step.name, kept, step.kept)
		}
	}
}

// TestEqualVotesAreFoundOnce: gangs with equal requests share a vote, which is kept while one of them needs it. Equal
// groups share one result.
func TestEqualVotesAreFoundOnce(t *testing.T) {
	w := sessiontest.ClusterSpec{Nodes: nodes("a1 ib-a", "a2 ib-a", "b1 ib-b", "b2 ib-b", "c1 ib-c")}
	for _, name := range []string{"g", "h", "i"} {
		w.PodGroups = append(w.PodGroups, gang(name, 2, "mode=required").MinResources(schedtest.Resources{"cpu": "4"}).Phase(v1beta1.PodGroupPending).Obj())
		w.Pods = append(w.Pods, sized("5", name+"/0", name+"/1")...)
	}
	f := open(t, w)
	f.session.Run(enqueue.New())
	e := f.plugin.memory.empty
	if len(e.votes) != 2 || len(e.equivalent) != 2 { // on minResources and on members; groups of two nodes and of one
		t.Errorf("%d votes and %d groups are recorded, want 2 and 2", len(e.votes), len(e.equivalent))
	}
	for key := range e.votes {
		e.votes[key] = "what was found"
	}
	f.reopen(t, nil)
	f.session.Run(enqueue.New())
	if reason, _ := f.session.Session.PendingReason("ns/h"); !strings.HasSuffix(reason.Message, "what was found") {
		t.Errorf("the vote was computed again: %q", reason.Message)
	}
	// The vote on minResources now rejects the gangs, so the vote on members is not called.
	f.reopen(t, nil)
	f.session.Run(enqueue.New())
	if f.plugin.memory.empty != e || len(e.votes) != 1 || len(e.lastVotes) != 1 {
		t.Errorf("%d votes of this session and %d of the last are kept, want 1 and 1", len(e.votes), len(e.lastVotes))
	}
}

// TestTaskClassesAreForgotten checks that unused task classes are dropped, because their number has no limit.
func TestTaskClassesAreForgotten(t *testing.T) {
	w := sessiontest.ClusterSpec{Nodes: two(), Pods: sized("5", "g/0"),
		PodGroups: []*v1beta1.PodGroup{gang("g", 1, "mode=required").MinResources(schedtest.Resources{"cpu": "4"}).Phase(v1beta1.PodGroupPending).Obj()}}
	f := open(t, w)
	f.session.Run(enqueue.New())
	e := f.plugin.memory.empty
	for i := range maxKnownClasses + 1 {
		e.class([]float64{float64(i), 0, 0, 0})
	}
	f.reopen(t, nil)
	f.session.Run(enqueue.New())
	if f.plugin.memory.empty != e || len(e.classes) > 1 {
		t.Errorf("%d task classes are kept, want at most 1", len(e.classes))
	}
	if got := f.job("g").PodGroup.Status.Phase; got != scheduling.PodGroupPending {
		t.Errorf("the gang is %s, want Pending", got)
	}
}

// TestNoLargePlanIsVotedAgainst checks that a cluster is large enough for many unlike members that fill its random
// nodes exactly.
func TestNoLargePlanIsVotedAgainst(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for cluster := range 30 {
		var list []*v1.Node
		var pods []*v1.Pod
		for n := range 10 + rnd.IntN(10) {
			cpu, memory, count := 0, 0, 5+rnd.IntN(15)
			for range count {
				c, m := 1+rnd.IntN(3000), 1+rnd.IntN(3000)
				cpu, memory = cpu+c, memory+m
				pods = append(pods, schedtest.MakePod().Name(fmt.Sprint("g-", len(pods))).Group("g").
					Req(schedtest.Resources{"cpu": fmt.Sprintf("%dm", c), "memory": fmt.Sprintf("%dMi", m)}).Obj())
			}
			list = append(list, schedtest.MakeNode().Name(fmt.Sprint("n", n)).Label("ibcluster", "ib-a").
				Capacity(schedtest.Resources{"cpu": fmt.Sprintf("%dm", cpu), "memory": fmt.Sprintf("%dMi", memory), "pods": fmt.Sprint(count)}).Obj())
		}
		g := gang("g", int32(len(pods)), "mode=required").MinResources(schedtest.Resources{"cpu": "1"}).Phase(v1beta1.PodGroupPending).Obj()
		f := open(t, sessiontest.ClusterSpec{Nodes: list, PodGroups: []*v1beta1.PodGroup{g}, Pods: slices.Clone(pods)})
		f.session.Run(enqueue.New())
		if reason, refused := f.session.Session.PendingReason(api.JobID("ns/g")); refused {
			t.Errorf("cluster %d: %s", cluster, reason.Message)
		}
		f.session.Close()
	}
}
