// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestSubGroups: A sub-group is the pods that share one value of a policy's label. Every node holds one pod unless a
// case states otherwise.
func TestSubGroups(t *testing.T) {
	// in returns a member of the sub-group with this label value.
	in := func(label, value string) *schedtest.PodBuilder {
		return schedtest.MakePod().Group("g").Label(label, value).Req(cores("2"))
	}
	running := func(pod *schedtest.PodBuilder, node, name string) *v1.Pod {
		return pod.Phase(v1.PodRunning).Node(node).Name(name).Obj()
	}
	gang := func(minMember int32) *schedtest.PodGroupBuilder {
		return schedtest.MakePodGroup().Name("g").MinMember(minMember)
	}
	two := func(names ...string) []*v1.Node { return nodes(holds("2"), names...) }
	four, eight := two("a1", "a2", "b1", "b2"), two("a1", "a2", "b1", "b2", "c1", "c2", "d1", "d2")
	world := func(nodes []*v1.Node, hyperNodes []*topologyv1alpha1.HyperNode, group *schedtest.PodGroupBuilder, pods ...[]*v1.Pod) sessiontest.ClusterSpec {
		w := sessiontest.ClusterSpec{Nodes: nodes, HyperNodes: hyperNodes, PodGroups: []*v1beta1.PodGroup{group.Obj()}}
		for _, list := range pods {
			w.Pods = append(w.Pods, list...)
		}
		return w
	}
	pair := func(label, value, first, second string) []*v1.Pod { return each(in(label, value), first, second) }
	cases := map[string]behaviour{
		"without topology: all sub-groups the gang needs are placed": {
			world: world(two("a1", "b1"), nil, gang(2).SubGroups("worker", "cell", 2, 1),
				each(in("cell", "0"), "g-0"), each(in("cell", "1"), "g-1")),
			binds: map[string]string{"g-0": "*", "g-1": "*"},
		},
		"without topology: a gang short of a sub-group is not placed": {
			world: world(two("a1"), nil, gang(1).SubGroups("worker", "cell", 2, 1),
				each(in("cell", "0"), "g-0"), each(in("cell", "1"), "g-1")),
		},
		"without topology: a sub-group is placed whole or not at all": {
			world: world(two("a1", "a2", "b1"), nil, gang(2).SubGroups("worker", "cell", 1, 2),
				pair("cell", "0", "g-0", "g-1"), pair("cell", "1", "g-2", "g-3")),
			check: func(t *testing.T, ssn *sessiontest.Session) {
				match(t, "bound", map[string]string{"g-0": "*", "g-1": "*"}, ssn.Binds())
			},
			binds: map[string]string{"g-0": "*", "g-1": "*"},
		},
		"without topology: a sub-group that waits for backfill takes what it needs beside it before another gang, and no more": {
			world: func() sessiontest.ClusterSpec {
				w := world(two("a1", "a2"), nil, gang(2).SubGroups("worker", "cell", 1, 2),
					each(in("cell", "0"), "g-0", "g-1"), each(schedtest.MakePod().Group("g").Label("cell", "0"), "g-2"), each(schedtest.MakePod().Group("h").Req(cores("2")), "h-0"))
				w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name("h").MinMember(1).Obj())
				return w
			}(),
			binds: map[string]string{"g-0": "*", "h-0": "*"},
		},
		"without topology: one sub-group has the one role, and another the other": {
			world: world(four, nil, gang(2).MinTaskMember("a", 1).MinTaskMember("b", 1).SubGroups("worker", "cell", 2, 1),
				each(in("cell", "0").Role("a"), "g-0"), each(in("cell", "0").Role("a").Req(cores("1")), "g-1"),
				each(in("cell", "1").Role("b"), "g-2"), each(in("cell", "1").Role("b").Req(cores("1")), "g-3")),
			binds: map[string]string{"g-0": "*", "g-1": "*", "g-2": "*", "g-3": "*"},
		},
		"gang hard, sub-groups soft: the gang lies in the row": {
			world: world(eight, twoRows, gang(3).Topology(hard, 2).SubGroups("role", "role", 0, 1).SubGroupTopology(soft, 1),
				each(in("role", "leader"), "g-0"), pair("role", "worker", "g-1", "g-2")),
			binds: map[string]string{"g-0": "*", "g-1": "*", "g-2": "*"},
			check: func(t *testing.T, ssn *sessiontest.Session) {
				if half := rowsOf(ssn); len(half) != 1 {
					t.Errorf("pods per row: %v, want all in one", half)
				}
			},
		},
		"gang hard, sub-groups soft: what is above the minimum goes to the same rack": {
			world: world(four, oneRow, gang(1).Topology(hard, 1).SubGroups("role", "role", 0, 1).SubGroupTopology(soft, 1),
				each(in("role", "leader"), "g-0"), each(in("role", "worker"), "g-1")),
			binds:    map[string]string{"g-0": "*", "g-1": "*"},
			together: [][]string{{"g-0", "g-1"}},
			check:    allocatedRack,
		},
		"gang hard, sub-groups soft: node selectors count": {
			world: world(append(two("a1"), nodes(holds("2").Label("zone", "x"), "b1")...), oneRow[:2],
				gang(1).Topology(hard, 1).SubGroups("role", "role", 0, 1).SubGroupTopology(soft, 1),
				each(in("role", "leader").NodeSelector("zone", "x"), "g-0")),
			binds: map[string]string{"g-0": "b1"},
		},
		"gang hard, sub-groups soft: a member follows those that run to the next rack": {
			world: world(four, oneRow, gang(2).Topology(hard, 2).SubGroups("role", "role", 0, 1).SubGroupTopology(soft, 1),
				[]*v1.Pod{running(in("role", "leader"), "a1", "g-0"), running(in("role", "worker"), "a2", "g-1")}, each(in("role", "worker"), "g-2")),
			binds: map[string]string{"g-2": "b1|b2"},
		},
		"gang hard, sub-groups soft: the same when the gang needs that member": {
			world: world(four, oneRow, gang(3).Topology(hard, 2).SubGroups("role", "role", 0, 1).SubGroupTopology(soft, 1),
				[]*v1.Pod{running(in("role", "leader"), "a1", "g-0"), running(in("role", "worker"), "a2", "g-1")}, each(in("role", "worker"), "g-2")),
			binds: map[string]string{"g-2": "b1|b2"},
		},
		"gang hard, sub-groups soft: not out of the row": {
			world: world(eight, twoRows, gang(2).Topology(hard, 2).SubGroups("role", "role", 0, 1).SubGroupTopology(soft, 1),
				[]*v1.Pod{running(in("role", "leader"), "c1", "g-0"), running(in("role", "worker"), "c2", "g-1")}, each(in("role", "worker"), "g-2")),
			binds: map[string]string{"g-2": "d1|d2"},
		},
		"gang soft, sub-groups hard: each in the rack that holds it": {
			world: world(two("a1", "a2", "b1"), oneRow, gang(3).Topology(soft, 1).
				SubGroups("pairs", "pair", 0, 2).SubGroupTopology(hard, 1).SubGroups("singles", "single", 0, 1).SubGroupTopology(hard, 1),
				pair("pair", "0", "g-0", "g-1"), each(in("single", "0"), "g-2")),
			binds: map[string]string{"g-0": "a1|a2", "g-1": "a1|a2", "g-2": "b1"},
		},
		"gang soft, sub-groups hard: what is above the minimum is placed": {
			world: world(four, oneRow, gang(1).Topology(soft, 1).SubGroups("role", "role", 0, 1).SubGroupTopology(hard, 1),
				each(in("role", "leader"), "g-0"), each(in("role", "worker"), "g-1")),
			binds: map[string]string{"g-0": "*", "g-1": "*"},
		},
		"gang soft, sub-groups hard: a sub-group that is larger than a rack keeps the gang out": {
			world: world(four, oneRow, gang(3).Topology(soft, 1).SubGroups("role", "role", 0, 1).SubGroupTopology(hard, 1),
				each(in("role", "leader"), "g-0"), each(in("role", "worker"), "g-1", "g-2", "g-3")),
		},
		"gang soft, sub-groups hard: a member joins its own sub-group": {
			world: world(four, oneRow, gang(2).Topology(soft, 1).SubGroups("role", "role", 0, 1).SubGroupTopology(hard, 1),
				[]*v1.Pod{running(in("role", "leader"), "a1", "g-0"), running(in("role", "worker"), "b1", "g-1")}, each(in("role", "worker"), "g-2")),
			binds: map[string]string{"g-2": "b2"},
		},
		"gang soft, sub-groups hard: a member waits when its sub-group's row is full": {
			world: world(eight, twoRows, gang(2).Topology(soft, 1).SubGroups("role", "role", 0, 1).SubGroupTopology(hard, 2),
				[]*v1.Pod{
					running(in("role", "leader"), "a1", "g-0"), running(in("role", "worker"), "a2", "g-1"),
					running(in("role", "worker"), "b1", "g-2"), running(in("role", "worker"), "b2", "g-3"),
				}, each(in("role", "worker"), "g-4")),
		},
	}
	for name, tc := range cases {
		tc.conf = topological
		cases[name] = tc
	}
	runTable(t, cases)
}

// rowsOf counts the bound pods by row of twoRows.
func rowsOf(ssn *sessiontest.Session) map[string]int {
	rows := map[string]int{}
	for _, node := range ssn.Binds() {
		rows[map[string]string{"a": "row1", "b": "row1", "c": "row2", "d": "row2"}[rackOf(node)]]++
	}
	return rows
}

// allocatedSub checks the HyperNodes chosen for the sub-groups, by "policy-value".
func allocatedSub(want map[string]string) func(*testing.T, *sessiontest.Session) {
	return func(t *testing.T, ssn *sessiontest.Session) {
		t.Helper()
		job := ssn.Jobs[schedtest.Namespace+"/g"]
		got := map[string]string{}
		for uid, sub := range job.SubJobs {
			got[string(uid)] = sub.AllocatedHyperNode
		}
		match(t, "allocated HyperNodes of the sub-groups", prefixed(want), got)
	}
}

func prefixed(want map[string]string) map[string]string {
	out := map[string]string{}
	for name, hyperNode := range want {
		out[schedtest.Namespace+"/g/"+name] = hyperNode
	}
	return out
}
