// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// topological is a configuration that takes HyperNodes into account.
const topological = `
actions: allocate
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: network-topology-aware
`

const (
	hard = v1beta1.HardNetworkTopologyMode
	soft = v1beta1.SoftNetworkTopologyMode
)

// rack returns a HyperNode of tier 1 with the nodes named after it: "a1", "a2" and so on.
func rack(name string) *topologyv1alpha1.HyperNode {
	return schedtest.MakeHyperNode().Name(name).TierName("rack").NodesLike("^" + name + "[0-9]+$").Obj()
}

// row returns a HyperNode of tier 2.
func row(name string, racks ...string) *topologyv1alpha1.HyperNode {
	return schedtest.MakeHyperNode().Name(name).Tier(2).TierName("row").HyperNodes(racks...).Obj()
}

// oneRow has two racks in a row, and twoRows has two such rows in a hall (tier 3).
var (
	oneRow  = []*topologyv1alpha1.HyperNode{rack("a"), rack("b"), row("row", "a", "b")}
	twoRows = []*topologyv1alpha1.HyperNode{
		rack("a"), rack("b"), rack("c"), rack("d"), row("row1", "a", "b"), row("row2", "c", "d"),
		schedtest.MakeHyperNode().Name("hall").Tier(3).TierName("hall").HyperNodes("row1", "row2").Obj(),
	}
)

// disorder makes the HyperNodes of oneRow invalid: one of them has two parents.
func disorder(c *sessiontest.Cluster) {
	if err := c.Cache().HyperNodesInfo.UpdateHyperNode(row("other", "a")); err == nil {
		panic("a HyperNode has two parents, and that is no error")
	}
}

// TestTopology: Every node holds one pod unless a case states otherwise.
func TestTopology(t *testing.T) {
	member := func() *schedtest.PodBuilder { return schedtest.MakePod().Group("g").Req(cores("2")) }
	running := func(node, name string) *v1.Pod {
		return member().Phase(v1.PodRunning).Node(node).Name(name).Obj()
	}
	four := nodes(holds("2"), "a1", "a2", "b1", "b2")
	eight := nodes(holds("2"), "a1", "a2", "b1", "b2", "c1", "c2", "d1", "d2")
	gang := func(minMember int32) *schedtest.PodGroupBuilder {
		return schedtest.MakePodGroup().Name("g").MinMember(minMember)
	}
	world := func(nodes []*v1.Node, hyperNodes []*topologyv1alpha1.HyperNode, group *schedtest.PodGroupBuilder, pods ...*v1.Pod) sessiontest.ClusterSpec {
		return sessiontest.ClusterSpec{Nodes: nodes, HyperNodes: hyperNodes, PodGroups: []*v1beta1.PodGroup{group.Obj()}, Pods: pods}
	}
	pending := func(names ...string) []*v1.Pod { return each(member(), names...) }
	cases := map[string]behaviour{
		"soft: a gang that is larger than a rack is placed": {
			world: world(four, oneRow, gang(3).Topology(soft, 1), pending("g-0", "g-1", "g-2")...),
			binds: map[string]string{"g-0": "*", "g-1": "*", "g-2": "*"},
		},
		"soft: a gang that fits a rack lies in one": {
			world:    world(four, oneRow, gang(2).Topology(soft, 1), pending("g-0", "g-1")...),
			binds:    map[string]string{"g-0": "*", "g-1": "*"},
			together: [][]string{{"g-0", "g-1"}},
		},
		"soft: what is above the minimum goes to the same rack": {
			world:    world(four, oneRow, gang(1).Topology(soft, 1), pending("g-0", "g-1")...),
			binds:    map[string]string{"g-0": "*", "g-1": "*"},
			together: [][]string{{"g-0", "g-1"}},
		},
		"soft: node selectors count": {
			world: world(append(nodes(holds("2"), "a1"), nodes(holds("2").Label("zone", "x"), "b1")...), oneRow[:2],
				gang(1).Topology(soft, 1), member().NodeSelector("zone", "x").Name("g-0").Obj()),
			binds: map[string]string{"g-0": "b1"},
		},
		"soft: a member joins those that run": {
			world: world(four, oneRow, gang(1).Topology(soft, 1), append(pending("g-1"), running("a1", "g-0"))...),
			binds: map[string]string{"g-1": "a2"},
		},
		"soft: a member for which the rack has no room goes elsewhere": {
			world: world(four, oneRow, gang(2).Topology(soft, 1),
				append(pending("g-2"), running("a1", "g-0"), running("a2", "g-1"))...),
			binds: map[string]string{"g-2": "b1|b2"},
		},
		"soft: the same when the gang needs that member": {
			world: world(four, oneRow, gang(3).Topology(soft, 1),
				append(pending("g-2"), running("a1", "g-0"), running("a2", "g-1"))...),
			binds: map[string]string{"g-2": "b1|b2"},
		},
		"soft: elsewhere is near": {
			world: world(eight, twoRows, gang(2).Topology(soft, 1),
				append(pending("g-2"), running("c1", "g-0"), running("c2", "g-1"))...),
			binds: map[string]string{"g-2": "d1|d2"},
		},
		"hard: a gang that is larger than a rack is not placed": {
			world: world(four, oneRow, gang(3).Topology(hard, 1), pending("g-0", "g-1", "g-2")...),
		},
		"hard: nor when a rack is larger on paper but not free": {
			world: func() sessiontest.ClusterSpec {
				w := world(eight, []*topologyv1alpha1.HyperNode{
					schedtest.MakeHyperNode().Name("l").Nodes("a1", "a2", "b1", "b2").Obj(), schedtest.MakeHyperNode().Name("r").Nodes("c1", "c2", "d1", "d2").Obj(),
				}, gang(3).Topology(hard, 1), pending("g-0", "g-1", "g-2")...)
				w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name("old").Phase(v1beta1.PodGroupRunning).Obj())
				for i, node := range []string{"a1", "b1", "c1", "d2"} { // Half of each node's CPU, so the sums suffice.
					w.Pods = append(w.Pods, schedtest.MakePod().Group("old").Req(schedtest.Resources{"cpu": "1"}).Phase(v1.PodRunning).Node(node).Name("old-"+string(rune('0'+i))).Obj())
				}
				return w
			}(),
		},
		"hard: a wider tier holds it": {
			world: world(four, oneRow, gang(3).Topology(hard, 2), pending("g-0", "g-1", "g-2")...),
			binds: map[string]string{"g-0": "*", "g-1": "*", "g-2": "*"},
			check: allocated("row"),
		},
		"hard: a gang lies in one rack": {
			world:    world(four, oneRow, gang(2).Topology(hard, 1), pending("g-0", "g-1")...),
			binds:    map[string]string{"g-0": "*", "g-1": "*"},
			together: [][]string{{"g-0", "g-1"}},
			check:    allocatedRack,
		},
		"hard: the narrowest tier that holds the gang is taken": {
			world:    world(eight, twoRows, gang(2).Topology(hard, 3), pending("g-0", "g-1")...),
			binds:    map[string]string{"g-0": "*", "g-1": "*"},
			together: [][]string{{"g-0", "g-1"}},
			check:    allocatedRack,
		},
		"hard: the next tier is taken when the narrowest does not hold the gang": {
			world: world(eight, twoRows, gang(4).Topology(hard, 3), pending("g-0", "g-1", "g-2", "g-3")...),
			binds: map[string]string{"g-0": "*", "g-1": "*", "g-2": "*", "g-3": "*"},
			check: func(t *testing.T, ssn *sessiontest.Session) {
				if got := uniqueNodes(ssn); !slices.Equal(got, []string{"a1", "a2", "b1", "b2"}) && !slices.Equal(got, []string{"c1", "c2", "d1", "d2"}) {
					t.Errorf("nodes %v, want those of one row", got)
				}
			},
		},
		"hard: what is above the minimum goes to the same rack": {
			world:    world(four, oneRow, gang(1).Topology(hard, 1), pending("g-0", "g-1")...),
			binds:    map[string]string{"g-0": "*", "g-1": "*"},
			together: [][]string{{"g-0", "g-1"}},
			check:    allocatedRack,
		},
		"hard: what is above the minimum waits when the rack is full": {
			world:    world(four, oneRow, gang(1).Topology(hard, 1), pending("g-0", "g-1", "g-2")...),
			binds:    map[string]string{"g-0": "*", "g-1": "*"},
			together: [][]string{{"g-0", "g-1"}},
		},
		"hard: node selectors count": {
			world: world(append(nodes(holds("2"), "a1"), nodes(holds("2").Label("zone", "x"), "b1")...), oneRow[:2],
				gang(1).Topology(hard, 1), member().NodeSelector("zone", "x").Name("g-0").Obj()),
			binds: map[string]string{"g-0": "b1"},
		},
		"hard: nodes in no HyperNode are not used": {
			world: world(nodes(holds("8"), "x1", "x2"), append(oneRow, schedtest.MakeHyperNode().Name("empty").NodesLike("^none$").Obj()),
				gang(1).Topology(hard, 2), pending("g-0")...),
		},
		"hard: a member follows those that run to the next rack of the row": {
			world: world(four, oneRow, gang(2).Topology(hard, 2),
				append(pending("g-2"), running("a1", "g-0"), running("a2", "g-1"))...),
			binds: map[string]string{"g-2": "b1|b2"},
			check: allocated("row"),
		},
		"hard: the same when the gang needs that member": {
			world: world(four, oneRow, gang(3).Topology(hard, 2),
				append(pending("g-2"), running("a1", "g-0"), running("a2", "g-1"))...),
			binds: map[string]string{"g-2": "b1|b2"},
			check: allocated("row"),
		},
		"hard: not out of the row": {
			world: world(eight, twoRows, gang(2).Topology(hard, 2),
				append(pending("g-2"), running("c1", "g-0"), running("c2", "g-1"))...),
			binds: map[string]string{"g-2": "d1|d2"},
			check: allocated("row2"),
		},
		"hard: a member for which the rack has no room waits": {
			world: world(four, oneRow, gang(2).Topology(hard, 1),
				append(pending("g-2"), running("a1", "g-0"), running("a2", "g-1"))...),
			check: allocated("a"),
		},
		"hard: the same in a hall": {
			world: world(eight, twoRows, gang(2).Topology(hard, 1),
				append(pending("g-2"), running("c1", "g-0"), running("c2", "g-1"))...),
			check: allocated("c"),
		},
		"hard: racks without a row are joined by the whole cluster, one tier above": {
			world: world(four, oneRow[:2], gang(2).Topology(hard, 2),
				append(pending("g-2"), running("a1", "g-0"), running("a2", "g-1"))...),
			binds: map[string]string{"g-2": "b1|b2"},
		},
		"hard: a gang waits in the rack where room is becoming free": {
			world: func() sessiontest.ClusterSpec {
				w := world(nodes(holds("2"), "a1", "a2", "b1"), oneRow, gang(2).Topology(hard, 1),
					append(leaving("a2", "2", "old-0"), pending("g-0", "g-1")...)...)
				w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name("old").Phase(v1beta1.PodGroupRunning).Obj())
				return w
			}(),
			pipelined: map[string]string{"g-1": "a2"},
		},
		"hard by name: a gang that is larger than a rack is not placed": {
			world: world(four, oneRow, gang(3).TopologyByName(hard, "rack"), pending("g-0", "g-1", "g-2")...),
		},
		"hard by name: a wider tier holds it": {
			world: world(four, oneRow, gang(3).TopologyByName(hard, "row"), pending("g-0", "g-1", "g-2")...),
			binds: map[string]string{"g-0": "*", "g-1": "*", "g-2": "*"},
			check: allocated("row"),
		},
		"hard by name: a gang lies in one rack": {
			world:    world(four, oneRow, gang(2).TopologyByName(hard, "rack"), pending("g-0", "g-1")...),
			binds:    map[string]string{"g-0": "*", "g-1": "*"},
			together: [][]string{{"g-0", "g-1"}},
			check:    allocatedRack,
		},
		"hard by name: a member follows those that run to the next rack of the row": {
			world: world(four, oneRow, gang(2).TopologyByName(hard, "row"),
				append(pending("g-2"), running("a1", "g-0"), running("a2", "g-1"))...),
			binds: map[string]string{"g-2": "b1|b2"},
		},
		"hard by name: the same when the gang needs that member": {
			world: world(four, oneRow, gang(3).TopologyByName(hard, "row"),
				append(pending("g-2"), running("a1", "g-0"), running("a2", "g-1"))...),
			binds: map[string]string{"g-2": "b1|b2"},
		},
		"hard by name: not out of the row": {
			world: world(eight, twoRows, gang(2).TopologyByName(hard, "row"),
				append(pending("g-2"), running("c1", "g-0"), running("c2", "g-1"))...),
			binds: map[string]string{"g-2": "d1|d2"},
		},
		"hard by name: a member for which the rack has no room waits": {
			world: world(four, oneRow, gang(2).TopologyByName(hard, "rack"),
				append(pending("g-2"), running("a1", "g-0"), running("a2", "g-1"))...),
		},
		"hard by name: a tier that does not exist restricts no task": {
			world: world(four, oneRow, gang(2).TopologyByName(hard, "hypercluster"),
				append(pending("g-2"), running("a1", "g-0"), running("a2", "g-1"))...),
			binds: map[string]string{"g-2": "b1|b2"},
		},
		"a gang with a topology waits while HyperNodes are in disorder": {
			world:   world(four, oneRow, gang(1).Topology(soft, 1), pending("g-0")...),
			prepare: disorder,
		},
		"a gang without a topology does not wait while HyperNodes are in disorder": {
			world:   world(four, oneRow, gang(1), pending("g-0")...),
			prepare: disorder,
			binds:   map[string]string{"g-0": "*"},
		},
	}
	for name, tc := range cases {
		tc.conf = topological
		cases[name] = tc
	}
	runTable(t, cases)
}

func TestTopologyScores(t *testing.T) {
	runTable(t, map[string]behaviour{
		"the fuller rack is taken": {
			conf: topological + "  - name: binpack\n",
			world: sessiontest.ClusterSpec{
				Nodes:      slices.Concat(nodes(holds("4"), "a1", "b1"), nodes(holds("8"), "a2", "b2")),
				HyperNodes: oneRow,
				PodGroups: []*v1beta1.PodGroup{
					schedtest.MakePodGroup().Name("g").MinMember(2).Topology(hard, 1).Obj(),
					schedtest.MakePodGroup().Name("old").MinMember(2).Phase(v1beta1.PodGroupRunning).Obj(),
				},
				Pods: slices.Concat(
					each(schedtest.MakePod().Group("g").Role("leader").Req(cores("2")), "g-0"),
					each(schedtest.MakePod().Group("g").Role("worker").Req(cores("4")), "g-1"),
					each(schedtest.MakePod().Group("old").Req(cores("2")).Phase(v1.PodRunning).Node("b1"), "old-0"),
					each(schedtest.MakePod().Group("old").Req(cores("4")).Phase(v1.PodRunning).Node("b2"), "old-1"),
				),
			},
			binds: map[string]string{"g-0": "b1", "g-1": "b2"},
			check: allocated("b"),
		},
		"a gang of two racks' size fills two racks of three": {
			conf: topological,
			world: sessiontest.ClusterSpec{
				Nodes:      nodes(holds("4"), "a1", "a2", "b1", "b2", "c1", "c2"),
				HyperNodes: []*topologyv1alpha1.HyperNode{rack("a"), rack("b"), rack("c"), row("row", "a", "b", "c")},
				PodGroups:  []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(4).Topology(hard, 2).Obj()},
				Pods:       each(schedtest.MakePod().Group("g").Req(cores("4")), "g-0", "g-1", "g-2", "g-3"),
			},
			binds: map[string]string{"g-0": "*", "g-1": "*", "g-2": "*", "g-3": "*"},
			check: func(t *testing.T, ssn *sessiontest.Session) {
				if diff := cmp.Diff([]int{2, 2}, perRack(ssn)); diff != "" {
					t.Errorf("pods per rack (-want +got):\n%s", diff)
				}
			},
		},
		"a pod without a topology goes to the fuller rack": {
			conf: topological,
			world: sessiontest.ClusterSpec{
				Nodes:      nodes(holds("4"), "a1", "a2", "b1", "b2"),
				HyperNodes: oneRow,
				PodGroups:  []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").Obj(), schedtest.MakePodGroup().Name("old").Phase(v1beta1.PodGroupRunning).Obj()},
				Pods: slices.Concat(each(schedtest.MakePod().Group("g").Req(cores("4")), "g-0"),
					each(schedtest.MakePod().Group("old").Req(cores("4")).Phase(v1.PodRunning).Node("b2"), "old-0")),
			},
			binds: map[string]string{"g-0": "b1"},
		},
	})
}

// allocated checks the HyperNode chosen for the gang.
func allocated(hyperNode string) func(*testing.T, *sessiontest.Session) {
	return func(t *testing.T, ssn *sessiontest.Session) {
		t.Helper()
		job := ssn.Jobs[schedtest.Namespace+"/g"]
		if job.AllocatedHyperNode != hyperNode {
			t.Errorf("allocated HyperNode of the gang is %q, want %q", job.AllocatedHyperNode, hyperNode)
		}
		if len(ssn.Binds()) > 0 && !ssn.DirtyJobs.Has(job.UID) {
			t.Error("the gang is not marked as changed: the cache would not learn its HyperNode")
		}
	}
}

// allocatedRack checks that the HyperNode chosen for the gang is the rack of its pods.
func allocatedRack(t *testing.T, ssn *sessiontest.Session) {
	t.Helper()
	for _, node := range ssn.Binds() {
		allocated(rackOf(node))(t, ssn)
		return
	}
}
