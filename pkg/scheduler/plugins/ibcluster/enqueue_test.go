// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/enqueue"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// TestWhoIsLetIn: of two clusters of 8 cpu and one of 4, beside a node in none.
func TestWhoIsLetIn(t *testing.T) {
	fabric := nodes("a1 ib-a s1", "a2 ib-a s2", "b1 ib-b", "b2 ib-b", "c1 ib-c", "x")
	tests := map[string]struct {
		gang *schedtest.PodGroupBuilder
		// let says that it is let in, told what its PodGroup is told if it is not.
		let  bool
		told string
	}{
		"what a cluster has": {gang("g", 8, "mode=required").MinResources(schedtest.Resources{"cpu": "8"}), true, ""},
		"more than any has": {gang("g", 9, "mode=required").MinResources(schedtest.Resources{"cpu": "9"}), false,
			"no node group is large enough for minResources, even when idle: ib-a, the largest of 3, has cpu 8 of 9"},
		"more than the listed one has": {gang("g", 8, "mode=required", "clusters=ib-c").MinResources(schedtest.Resources{"cpu": "8", "rdma/hca": "9"}), false,
			"no node group is large enough for minResources, even when idle: ib-c, the largest of 1, has cpu 4 of 8, rdma/hca 8 of 9"},
		"more than a narrower group has": {gang("g", 5, "mode=required", "level=spine").MinResources(schedtest.Resources{"cpu": "5"}), false,
			"no node group is large enough for minResources, even when idle: ib-a/s1, the largest of 2, has cpu 4 of 5"},
		"more, for a gang that only prefers":  {gang("g", 9, "mode=preferred").MinResources(schedtest.Resources{"cpu": "9"}), true, ""},
		"more, for a gang without a wish":     {gang("g", 9).MinResources(schedtest.Resources{"cpu": "9"}), true, ""},
		"what is no node's, but a quota's":    {gang("g", 8, "mode=required").MinResources(schedtest.Resources{"cpu": "8", "limits.cpu": "800"}), true, ""},
		"no cluster that is listed is there":  {gang("g", 9, "mode=required", "clusters=ib-z").MinResources(schedtest.Resources{"cpu": "9"}), true, ""},
		"a gang that does not say how much":   {gang("g", 99, "mode=required"), true, ""},
		"annotations that cannot be read yet": {gang("g", 9, "mode=perhaps").MinResources(schedtest.Resources{"cpu": "9"}), true, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := open(t, sessiontest.World{Nodes: fabric, PodGroups: []*v1beta1.PodGroup{tt.gang.Phase(v1beta1.PodGroupPending).Obj()}}, "levels: [ibcluster, spine, leaf]")
			f.Run(enqueue.New())
			if let := f.job("g").PodGroup.Status.Phase == scheduling.PodGroupInqueue; let != tt.let {
				t.Errorf("let in: %t, want %t", let, tt.let)
			}
			f.Session.Close()
			wait, _ := f.Session.Wait("ns/g")
			if tt.told != "" && wait.Message != tt.told || tt.told == "" && strings.Contains(wait.Message, "one node group") {
				t.Errorf("told %q, want %q", wait.Message, tt.told)
			}
		})
	}
}

// TestMembersThatNoClusterHolds: minResources are no more than a cluster has. Clusters are two nodes of 4 cpu and 10 pods each, ib-c
// has one of them.
func TestMembersThatNoClusterHolds(t *testing.T) {
	fabric := nodes("a1 ib-a", "a2 ib-a", "b1 ib-b", "b2 ib-b", "c1 ib-c", "x")
	many := func(n int, cpu string) []*v1.Pod {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("g/%d", i))
		}
		return sized(cpu, names...)
	}
	tests := map[string]struct {
		minMember int32
		wishes    []string
		pods      []*v1.Pod
		// told is empty for a gang that is let in.
		told string
	}{
		"members that fill their nodes": {2, nil, many(2, "4"), ""},
		"as many as nodes take":         {4, nil, many(4, "2"), ""},
		"of which each node takes one": {3, nil, many(3, "2500m"),
			"none of 3 node groups fits the 3 pods needed, even when idle: ib-a fits 2 of the 3 that request cpu 2500m"},
		"larger than every node": {1, nil, many(1, "6"),
			"none of 3 node groups fits the 1 pods needed, even when idle: ib-a fits 0 of the 1 that request cpu 6"},
		"more pods than the nodes take": {40, nil, many(40, "200m"),
			"none of 3 node groups fits the 40 pods needed, even when idle: ib-a has pods 20, enough for 20 of them"},
		"that ask for more than minResources say": {3, nil, many(3, "4"),
			"none of 3 node groups fits the 3 pods needed, even when idle: ib-a has cpu 8, enough for 2 of them"},
		"of sizes of which the sum is too much": {3, nil, slices.Concat(sized("3", "g/0"), sized("2500m", "g/1"), sized("2600m", "g/2")),
			"none of 3 node groups fits the 3 pods needed, even when idle: ib-a has cpu 8, enough for 2 of them"},
		"of sizes of which each node takes one": {3, nil, slices.Concat(sized("2500m", "g/0"), sized("2600m", "g/1"), sized("2700m", "g/2")),
			"none of 3 node groups fits the 3 pods needed, even when idle: ib-a fits 2 of the 3 that request cpu 2500m or more"},
		"of which one of several sizes fits nowhere": {3, nil, slices.Concat(sized("1", "g/0", "g/1"), sized("5", "g/2")),
			"none of 3 node groups fits the 3 pods needed, even when idle: ib-a fits 0 of the 1 that request cpu 5"},
		"of which the smallest are enough":                 {2, nil, slices.Concat(sized("1", "g/0", "g/1"), sized("5", "g/2")), ""},
		"of which those that ask for nothing do":           {3, nil, slices.Concat(sized("4", "g/0", "g/1"), []*v1.Pod{schedtest.MakePod().Name("g-2").Group("g").Obj()}), ""},
		"of which one that asks for nothing leaves enough": {3, nil, slices.Concat(many(3, "4"), []*v1.Pod{schedtest.MakePod().Name("g-3").Group("g").Obj()}), ""},
		"of which some are there":                          {3, nil, many(2, "6"), ""},
		"of which some run":                                {3, nil, slices.Concat(many(2, "4"), members("g/9@x")), ""},
		"that a listed cluster does not hold": {2, []string{"clusters=ib-c"}, many(2, "4"),
			"none of 1 node groups fits the 2 pods needed, even when idle: ib-c has cpu 4, enough for 1 of them"},
		"that need not lie in one": {3, []string{"mode=preferred"}, many(3, "2500m"), ""},
		"beside a resource that no node has": {2, nil, func() []*v1.Pod {
			pods := many(2, "4")
			pods[0].Spec.Containers[0].Resources.Requests["example.com/dongle"] = resource.MustParse("1")
			return pods
		}(), ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, pod := range tt.pods {
				pod.Annotations = map[string]string{v1beta1.KubeGroupNameAnnotationKey: "g"}
			}
			g := gang("g", tt.minMember, append([]string{"mode=required"}, tt.wishes...)...).MinResources(schedtest.Resources{"cpu": "4"}).Phase(v1beta1.PodGroupPending)
			busy := schedtest.MakePod().Name("busy").Req(schedtest.Resources{"cpu": "3"}).Node("a1").Phase(v1.PodRunning).Obj() // it will end
			f := open(t, sessiontest.World{Nodes: fabric, PodGroups: []*v1beta1.PodGroup{g.Obj()}, Pods: append(tt.pods, busy)})
			f.Run(enqueue.New())
			want := scheduling.PodGroupInqueue
			if tt.told != "" {
				want = scheduling.PodGroupPending
			}
			if got := f.job("g").PodGroup.Status.Phase; got != want {
				t.Errorf("it is %s, want %s", got, want)
			}
			f.Session.Close()
			wait, _ := f.Session.Wait("ns/g")
			if tt.told == "" && strings.Contains(wait.Message, "even when idle") || tt.told != "" && wait.Message != tt.told {
				t.Errorf("told %q, want %q", wait.Message, tt.told)
			}
		})
	}
}

// TestWithoutMinimumMembersAreLetIn: where no plugin waits for the gang's minimum some members may be placed.
func TestWithoutMinimumMembersAreLetIn(t *testing.T) {
	g := gang("g", 3, "mode=required").MinResources(schedtest.Resources{"cpu": "7"}).Phase(v1beta1.PodGroupPending).Obj()
	f := open(t, sessiontest.World{Nodes: two(), PodGroups: []*v1beta1.PodGroup{g}, Pods: sized("2500m", "g/0", "g/1", "g/2")})
	f.conf = strings.Replace(f.conf, "  - name: gang\n", "  - name: gang\n    enableJobReady: false\n", 1)
	f.reopen(t, nil)
	f.Run(enqueue.New())
	if got := f.job("g").PodGroup.Status.Phase; got != scheduling.PodGroupInqueue {
		t.Errorf("it is %s, want Inqueue", got)
	}
}

// TestAGangThatNoClusterHoldsLeavesRoomForOthers: its request is promised to it neither by the cluster nor by its queue, wherever
// the conf has the plugin.
func TestAGangThatNoClusterHoldsLeavesRoomForOthers(t *testing.T) {
	data, err := os.ReadFile("../../../../config/samples/ibcluster.conf")
	if err != nil {
		t.Fatal(err)
	}
	sample := strings.NewReplacer("  - name: coscheduling\n", "", "  - name: volumebinding\n", "", "  - name: overcommit\n", "").Replace(string(data))
	if !strings.Contains(sample, "  - name: proportion\n") {
		t.Fatal("the sample does not name proportion")
	}
	first := strings.Replace(conf(), "  - name: ibcluster\n", "", 1)
	first = strings.Replace(first, "  - name: priority\n", "  - name: priority\n  - name: ibcluster\n", 1)
	confs := map[string]string{
		"first":            strings.Replace(first, "  - name: conformance\n", "  - name: conformance\n- plugins:\n  - name: overcommit\n    arguments:\n      overcommit-factor: 1\n", 1),
		"after overcommit": strings.Replace(conf(), "  - name: ibcluster\n", "  - name: overcommit\n    arguments:\n      overcommit-factor: 1\n  - name: ibcluster\n", 1),
		"as in the sample": sample,
		"after capacity":   strings.Replace(sample, "  - name: proportion\n", "  - name: capacity\n", 1),
	}
	tests := map[string]struct {
		minMember    int32
		minResources string
		pods         []*v1.Pod
	}{
		"by its minResources": {16, "16", nil},
		"by its members":      {3, "7500m", sized("2500m", "g0/0", "g0/1", "g0/2")},
	}
	for name, tt := range tests {
		for order, text := range confs {
			t.Run(name+", "+order, func(t *testing.T) {
				w := sessiontest.World{Nodes: nodes("a1 ib-a", "a2 ib-a", "b1 ib-b", "b2 ib-b"), Pods: tt.pods}
				w.Queues = []*v1beta1.Queue{schedtest.MakeQueue().Name(schedtest.Queue).Capability(schedtest.Resources{"cpu": "16"}).Obj()}
				asking := func(name string, minMember int32, cpu string) {
					w.PodGroups = append(w.PodGroups, gang(name, minMember, "mode=required").MinResources(schedtest.Resources{"cpu": cpu}).Phase(v1beta1.PodGroupPending).Obj())
				}
				asking("g0", tt.minMember, tt.minResources)
				asking("g1", 8, "8")
				asking("g2", 8, "8")
				f := open(t, w)
				f.conf = text
				f.reopen(t, nil)
				f.Run(enqueue.New())
				got := map[string]scheduling.PodGroupPhase{}
				for _, name := range []string{"g0", "g1", "g2"} {
					got[name] = f.job(name).PodGroup.Status.Phase
				}
				want := map[string]scheduling.PodGroupPhase{"g0": scheduling.PodGroupPending, "g1": scheduling.PodGroupInqueue, "g2": scheduling.PodGroupInqueue}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("phases (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestNoPlanIsVotedAgainst: members that were put on nodes, at random, have room there, whatever others there are.
func TestNoPlanIsVotedAgainst(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for world := range 2000 {
		upstream := &vcframework.Session{TotalResource: api.EmptyResource()}
		group := &topology.Group{Name: "a"}
		pending := map[api.TaskID]*api.TaskInfo{}
		add := func(cpu, memory, gpu int) *api.Resource {
			asks := api.NewResource(v1.ResourceList{
				"cpu": *resource.NewMilliQuantity(int64(cpu), resource.DecimalSI), "memory": *resource.NewQuantity(int64(memory), resource.BinarySI),
				"nvidia.com/gpu": *resource.NewQuantity(int64(gpu), resource.DecimalSI), "pods": resource.MustParse("1"),
			})
			id := api.TaskID(fmt.Sprint(len(pending)))
			pending[id] = &api.TaskInfo{UID: id, InitResreq: asks}
			return asks
		}
		sizes := 1 + rnd.IntN(4)
		step := func(most int) int { return (1 + rnd.IntN(sizes)) * most / sizes }
		for n := range 1 + rnd.IntN(4) {
			name := fmt.Sprint("n", n)
			node := api.NewNodeInfo(schedtest.MakeNode().Name(name).Capacity(schedtest.Resources{"cpu": "0", "memory": "0", "pods": "0"}).Obj())
			node.Allocatable = api.EmptyResource()
			for range rnd.IntN(4) {
				node.Allocatable.Add(add(step(4000), step(8000), rnd.IntN(2)))
			}
			upstream.NodeList = append(upstream.NodeList, node)
			upstream.TotalResource.Add(node.Allocatable)
			group.Nodes = append(group.Nodes, name)
		}
		needed := len(pending)
		for range rnd.IntN(3) {
			add(step(9000), step(9000), rnd.IntN(2))
		}
		empty := newEmptyGroups(&framework.Session{Session: upstream}, nil)
		if counts := empty.kindsOf(pending, needed); counts != nil {
			w := empty.wanted(counts, needed)
			if room := w.roomIn(empty.of(group)); room.members < needed {
				t.Errorf("world %d: room for %d members, and %d were put there: %s", world, room.members, needed, w.describe(room, empty.of(group)))
			}
		}
	}
}

// TestTriggerResourcesOfAJobWithoutPods: its minResources say what its pods will ask for.
func TestTriggerResourcesOfAJobWithoutPods(t *testing.T) {
	for name, tt := range map[string]struct {
		asks schedtest.Resources
		want scheduling.PodGroupPhase
	}{
		"more than a cluster has":            {schedtest.Resources{"cpu": "12", "rdma/hca": "12"}, scheduling.PodGroupPending},
		"what a cluster has":                 {schedtest.Resources{"cpu": "8", "rdma/hca": "8"}, scheduling.PodGroupInqueue},
		"nothing that calls for one cluster": {schedtest.Resources{"cpu": "12"}, scheduling.PodGroupInqueue},
	} {
		t.Run(name, func(t *testing.T) {
			g := gang("g", 12).MinResources(tt.asks).Phase(v1beta1.PodGroupPending).Obj()
			f := open(t, sessiontest.World{Nodes: two(), PodGroups: []*v1beta1.PodGroup{g}}, "triggerResources: [rdma/hca]")
			f.Run(enqueue.New())
			if got := f.job("g").PodGroup.Status.Phase; got != tt.want {
				t.Errorf("it is %s, want %s", got, tt.want)
			}
		})
	}
}
