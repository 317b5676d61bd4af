// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestSubGroupsInHardTopology: A gang must be in one domain, and each of its sub-groups in a narrower one.
func TestSubGroupsInHardTopology(t *testing.T) {
	in := func(label, value string) *schedtest.PodBuilder {
		return schedtest.MakePod().Group("g").Label(label, value).Req(cores("2"))
	}
	running := func(pod *schedtest.PodBuilder, node, name string) *v1.Pod {
		return pod.Phase(v1.PodRunning).Node(node).Name(name).Obj()
	}
	gang := func(minMember int32) *schedtest.PodGroupBuilder {
		return schedtest.MakePodGroup().Name("g").MinMember(minMember)
	}
	of := func(cpu string, names ...string) []*v1.Node { return nodes(holds(cpu), names...) }
	four, eight := of("2", "a1", "a2", "b1", "b2"), of("2", "a1", "a2", "b1", "b2", "c1", "c2", "d1", "d2")
	threeRacks := []*topologyv1alpha1.HyperNode{rack("a"), rack("b"), rack("c"), row("row", "a", "b", "c")}
	world := func(nodes []*v1.Node, hyperNodes []*topologyv1alpha1.HyperNode, group *schedtest.PodGroupBuilder, pods ...[]*v1.Pod) sessiontest.ClusterSpec {
		return sessiontest.ClusterSpec{
			Nodes: nodes, HyperNodes: hyperNodes, PodGroups: []*v1beta1.PodGroup{group.Obj()}, Pods: slices.Concat(pods...),
		}
	}
	// singlesAndPairs returns a gang that must be in one row, with each sub-group in one rack. Sub-groups have one pod
	// or two; singles and pairs are how many of each the minimum needs.
	singlesAndPairs := func(minMember, singles, pairs int32) *schedtest.PodGroupBuilder {
		return gang(minMember).Topology(hard, 2).
			SubGroups("singles", "single", singles, 1).SubGroupTopology(hard, 1).
			SubGroups("pairs", "pair", pairs, 2).SubGroupTopology(hard, 1)
	}
	byRole := func(minMember, size, needed int32, tier int) *schedtest.PodGroupBuilder {
		return gang(minMember).Topology(hard, 2).SubGroups("role", "role", needed, size).SubGroupTopology(hard, tier)
	}
	single := func(value, name string) []*v1.Pod { return each(in("single", value), name) }
	pair := func(value, first, second string) []*v1.Pod { return each(in("pair", value), first, second) }
	cases := map[string]behaviour{
		"a pair lies in one rack": {
			world: world(four, oneRow, byRole(3, 1, 0, 1), each(in("role", "leader"), "g-0"), each(in("role", "worker"), "g-1", "g-2")),
			binds: map[string]string{"g-0": "*", "g-1": "*", "g-2": "*"}, together: [][]string{{"g-1", "g-2"}},
		},
		"each in the rack that holds it": {
			world: world(of("2", "a1", "a2", "b1"), oneRow, singlesAndPairs(3, 0, 0), single("0", "g-0"), pair("0", "g-1", "g-2")),
			binds: map[string]string{"g-0": "b1", "g-1": "a1|a2", "g-2": "a1|a2"},
			check: func(t *testing.T, ssn *sessiontest.Session) {
				allocated("row")(t, ssn)
				allocatedSub(map[string]string{"singles-0": "b", "pairs-0": "a"})(t, ssn)
			},
		},
		"single pods go where there is room": {
			world: world(four, oneRow, byRole(2, 1, 0, 1), each(in("role", "leader"), "g-0"), each(in("role", "worker"), "g-1")),
			binds: map[string]string{"g-0": "*", "g-1": "*"},
		},
		"what is above the minimum is placed": {
			world: world(four, oneRow, byRole(1, 1, 0, 1), each(in("role", "leader"), "g-0"), each(in("role", "worker"), "g-1")),
			binds: map[string]string{"g-0": "*", "g-1": "*"},
		},
		"a member joins its own sub-group": {
			world: world(four, oneRow, byRole(2, 1, 0, 1),
				[]*v1.Pod{running(in("role", "leader"), "a1", "g-0"), running(in("role", "worker"), "b1", "g-1")}, each(in("role", "worker"), "g-2")),
			binds: map[string]string{"g-2": "b2"},
			check: allocatedSub(map[string]string{"role-leader": "a", "role-worker": "b"}),
		},
		"a member goes to the next rack when its sub-group may": {
			world: world(four, oneRow, byRole(3, 1, 0, 2),
				[]*v1.Pod{running(in("role", "leader"), "a1", "g-0"), running(in("role", "worker"), "a2", "g-1")}, each(in("role", "worker"), "g-2")),
			binds: map[string]string{"g-2": "b1|b2"},
			check: allocatedSub(map[string]string{"role-leader": "a", "role-worker": "row"}),
		},
		"but not out of its row": {
			world: world(eight, twoRows, gang(2).Topology(hard, 3).SubGroups("role", "role", 0, 1).SubGroupTopology(hard, 2),
				[]*v1.Pod{running(in("role", "leader"), "c1", "g-0"), running(in("role", "worker"), "c2", "g-1")}, each(in("role", "worker"), "g-2")),
			binds: map[string]string{"g-2": "d1|d2"},
		},
		"a member whose sub-group may lie anywhere stays in the gang's row": {
			world: world(eight, twoRows, gang(2).Topology(hard, 2).SubGroups("role", "role", 0, 1),
				[]*v1.Pod{running(in("role", "leader"), "c1", "g-0"), running(in("role", "worker"), "c2", "g-1")}, each(in("role", "worker"), "g-2")),
			binds:           map[string]string{"g-2": "d1|d2"},
			check:           allocated("row2"),
			upstreamDiffers: "it does not know where a gang lies whose sub-groups have no topology of their own",
		},
		"a member waits when its sub-group's rack is full": {
			world: world(four, oneRow, byRole(2, 1, 0, 1),
				[]*v1.Pod{running(in("role", "leader"), "a1", "g-0"), running(in("role", "worker"), "a2", "g-1")}, each(in("role", "worker"), "g-2")),
		},
		"a member waits when its sub-group's row is full": {
			world: world(eight, twoRows, gang(2).Topology(hard, 3).SubGroups("role", "role", 0, 1).SubGroupTopology(hard, 2),
				[]*v1.Pod{
					running(in("role", "leader"), "a1", "g-0"), running(in("role", "worker"), "a2", "g-1"),
					running(in("role", "worker"), "b1", "g-2"), running(in("role", "worker"), "b2", "g-3"),
				}, each(in("role", "worker"), "g-4")),
		},
		"racks without a row are joined by the whole cluster": {
			world: world(four, oneRow[:2], gang(2).Topology(hard, 3).SubGroups("role", "role", 0, 1).SubGroupTopology(hard, 2),
				[]*v1.Pod{running(in("role", "leader"), "a1", "g-0"), running(in("role", "worker"), "a2", "g-1")}, each(in("role", "worker"), "g-2")),
			binds: map[string]string{"g-2": "b1|b2"},
		},
		"all the sub-groups that are needed, each in a rack": {
			world: world(of("2", "a1", "a2", "b1", "b2", "c1"), threeRacks, singlesAndPairs(5, 1, 2),
				single("0", "g-0"), pair("0", "g-1", "g-2"), pair("1", "g-3", "g-4")),
			binds:    map[string]string{"g-0": "c1", "g-1": "*", "g-2": "*", "g-3": "*", "g-4": "*"},
			together: [][]string{{"g-1", "g-2"}, {"g-3", "g-4"}},
		},
		"of two pairs the one that is needed": {
			world: world(of("2", "a1", "a2", "b1"), oneRow, singlesAndPairs(3, 1, 1),
				single("0", "g-0"), pair("0", "g-1", "g-2"), pair("1", "g-3", "g-4")),
			binds: map[string]string{"g-0": "b1", "g-1": "a1|a2", "g-2": "a1|a2"},
		},
		"of four single pods the two that are needed, and the pair": {
			world: world(four, oneRow, singlesAndPairs(3, 2, 1),
				single("0", "g-0"), single("1", "g-1"), single("2", "g-2"), single("3", "g-3"), pair("0", "g-4", "g-5"), pair("1", "g-6", "g-7")),
			binds:    map[string]string{"g-0": "*", "g-1": "*", "g-4": "*", "g-5": "*"},
			together: [][]string{{"g-0", "g-1"}, {"g-4", "g-5"}},
		},
		"needed sub-groups come before more of another policy": {
			world: world(of("2", "a1", "a2"), oneRow, singlesAndPairs(2, 0, 1), single("0", "g-0"), single("1", "g-1"), pair("0", "g-2", "g-3")),
			binds: map[string]string{"g-2": "*", "g-3": "*"},
		},
		"a needed sub-group comes before one that is not, whatever their names": {
			world: world(of("2", "a1", "a2"), oneRow, singlesAndPairs(1, 1, 0), single("0", "g-0"), pair("0", "g-1", "g-2")),
			binds: map[string]string{"g-0": "*"},
		},
		"a gang whose minimum is above its sub-groups' is kept to it": {
			world: world(four, oneRow, singlesAndPairs(5, 1, 1),
				single("0", "g-0"), pair("0", "g-1", "g-2"), pair("1", "g-3", "g-4")),
		},
		"a gang short of one sub-group is not placed": {
			world: world(four, oneRow, singlesAndPairs(3, 1, 2),
				single("0", "g-0"), pair("0", "g-1", "g-2"), pair("1", "g-3", "g-4")),
		},
		"a sub-group that lost a member gets it back in its rack": {
			world: world(four, oneRow, byRole(2, 2, 1, 1),
				[]*v1.Pod{running(in("role", "leader"), "a1", "g-0"), running(in("role", "worker"), "b1", "g-1")}, each(in("role", "worker"), "g-2")),
			binds: map[string]string{"g-2": "b2"},
		},
		"a sub-group that lost a member waits when its rack is full": {
			world: world(four, oneRow, byRole(2, 2, 1, 1),
				[]*v1.Pod{
					running(in("role", "leader"), "a1", "g-0"), running(in("role", "worker"), "b1", "g-1"), running(in("role", "worker"), "b2", "g-2"),
				}, each(in("role", "worker"), "g-3")),
		},
		"two sub-groups that lost a member each get them back in the row": {
			world: world(four, oneRow, byRole(4, 2, 2, 2),
				[]*v1.Pod{running(in("role", "leader"), "a1", "g-0"), running(in("role", "worker"), "a2", "g-1")},
				each(in("role", "worker"), "g-2"), each(in("role", "leader"), "g-3")),
			binds: map[string]string{"g-2": "b1|b2", "g-3": "b1|b2"},
		},
		"a pair joins the single pods that run": {
			world: world(four, oneRow, singlesAndPairs(3, 2, 1), single("0", "g-0"), single("1", "g-1"),
				[]*v1.Pod{running(in("single", "2"), "a1", "g-2"), running(in("single", "3"), "a2", "g-3")},
				pair("0", "g-4", "g-5"), pair("1", "g-6", "g-7")),
			binds: map[string]string{"g-4": "b1|b2", "g-5": "b1|b2"},
		},
		"half a sub-group joins the other half where there is room": {
			world: world(of("4", "a1", "a2", "b1", "b2"), oneRow, byRole(4, 4, 0, 1),
				[]*v1.Pod{running(in("role", "worker"), "a1", "g-0"), running(in("role", "worker"), "a2", "g-1")},
				each(in("role", "worker"), "g-2", "g-3")),
			binds: map[string]string{"g-2": "a1|a2", "g-3": "a1|a2"},
		},
		"one member joins the rest where there is room": {
			world: world(of("4", "a1", "a2", "b1"), oneRow, byRole(3, 3, 0, 1),
				[]*v1.Pod{running(in("role", "worker"), "a1", "g-0"), running(in("role", "worker"), "a2", "g-1")},
				each(in("role", "worker"), "g-2")),
			binds: map[string]string{"g-2": "a1|a2"},
		},
		"sub-groups of two policies are made whole, each in its rack": {
			world: world(of("4", "a1", "a2", "b1", "b2"), oneRow, gang(6).Topology(hard, 2).
				SubGroups("left", "left", 0, 3).SubGroupTopology(hard, 1).SubGroups("right", "right", 0, 3).SubGroupTopology(hard, 1),
				[]*v1.Pod{
					running(in("left", "0"), "a1", "g-0"), running(in("left", "0"), "a2", "g-1"), running(in("right", "0"), "b1", "g-3"),
				},
				each(in("left", "0"), "g-2"), each(in("right", "0"), "g-4", "g-5")),
			binds: map[string]string{"g-2": "a1|a2", "g-4": "b1|b2", "g-5": "b1|b2"},
		},
		"members of different sizes join the rest": {
			world: world(of("10", "a1", "a2"), oneRow[:1], gang(3).Topology(hard, 1).SubGroups("role", "role", 0, 3).SubGroupTopology(hard, 1),
				[]*v1.Pod{running(in("role", "worker"), "a1", "g-0")},
				each(in("role", "worker"), "g-1"), each(in("role", "worker").Req(cores("4")), "g-2")),
			binds: map[string]string{"g-1": "*", "g-2": "*"},
		},
		"half a sub-group waits when there is room for part of it only": {
			world: world(of("4", "a1", "a2"), oneRow[:1], gang(3).Topology(hard, 1).SubGroups("role", "role", 0, 3).SubGroupTopology(hard, 1),
				[]*v1.Pod{running(in("role", "worker").Req(cores("4")), "a1", "g-0")},
				each(in("role", "worker").Req(cores("4")), "g-1", "g-2")),
		},
		"half a sub-group is made whole over the racks of its row": {
			world: world(of("4", "a1", "a2", "b1", "b2"), oneRow, byRole(4, 4, 0, 2),
				[]*v1.Pod{running(in("role", "worker"), "a1", "g-0"), running(in("role", "worker"), "a2", "g-1")},
				each(in("role", "worker"), "g-2", "g-3")),
			binds: map[string]string{"g-2": "*", "g-3": "*"},
		},
	}
	for name, tc := range cases {
		tc.conf = topological
		cases[name] = tc
	}
	runTable(t, cases)
}
