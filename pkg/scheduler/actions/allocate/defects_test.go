// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// The tests below are named after defects of upstream's action that this project's action does not have.

// TestNominatedBypass checks that a nominated node is tried only where the gang may be placed. Upstream's action
// tries a pod's nominated node before all others, wherever that node is.
func TestNominatedBypass(t *testing.T) {
	member := func() *schedtest.PodBuilder { return schedtest.MakePod().Group("g").Req(cores("2")) }
	world := func(group *schedtest.PodGroupBuilder) sessiontest.ClusterSpec {
		return sessiontest.ClusterSpec{
			Nodes: nodes(holds("2"), "a1", "a2", "b1"), HyperNodes: oneRow,
			PodGroups: []*v1beta1.PodGroup{group.Name("g").MinMember(2).Obj()},
			Pods:      slices.Concat(each(member().Nominated("b1"), "g-0"), each(member(), "g-1")),
		}
	}
	runDefects(t, map[string]behaviour{
		"out of the required HyperNode": {
			conf: topological, world: world(schedtest.MakePodGroup().Topology(hard, 1)),
			binds: map[string]string{"g-0": "a1|a2", "g-1": "a1|a2"},
		},
		"out of the sub-group's HyperNode": {
			conf: topological,
			world: func() sessiontest.ClusterSpec {
				w := world(schedtest.MakePodGroup().Topology(hard, 2).SubGroups("pair", "pair", 1, 2).SubGroupTopology(hard, 1))
				for _, pod := range w.Pods {
					pod.Labels["pair"] = "0"
				}
				return w
			}(),
			binds: map[string]string{"g-0": "a1|a2", "g-1": "a1|a2"},
		},
		"out of the required node group": {
			conf: plain + "\n- plugins:\n  - name: racks\n", plugins: []framework.PluginSpec{nodeGroups("racks", rackGroups(true, "a", "b"))},
			world: world(schedtest.MakePodGroup()),
			binds: map[string]string{"g-0": "a1|a2", "g-1": "a1|a2"},
		},
	})
}

// TestRandomTie checks that the choice among equal scores is deterministic. Upstream chooses any of the nodes and
// HyperNodes with the best score, so its placements differ although the cluster is the same.
func TestRandomTie(t *testing.T) {
	member := func(group string) *schedtest.PodBuilder { return schedtest.MakePod().Group(group).Req(cores("1")) }
	worlds := map[string]struct {
		conf  string
		world sessiontest.ClusterSpec
	}{
		"nodes": {plain, sessiontest.ClusterSpec{
			Nodes:     nodes(holds("4"), "n1", "n2", "n3", "n4", "n5"),
			PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(3).Obj(), schedtest.MakePodGroup().Name("h").MinMember(2).Obj()},
			Pods:      slices.Concat(each(member("g"), "g-0", "g-1", "g-2"), each(member("h"), "h-0", "h-1")),
		}},
		"HyperNodes": {topological, sessiontest.ClusterSpec{
			Nodes:      nodes(holds("2"), "a1", "a2", "b1", "b2", "c1", "c2", "d1", "d2"),
			HyperNodes: twoRows,
			PodGroups:  []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(3).Topology(hard, 1).Obj(), schedtest.MakePodGroup().Name("h").MinMember(2).Topology(soft, 1).Obj()},
			Pods:       slices.Concat(each(member("g"), "g-0", "g-1", "g-2"), each(member("h"), "h-0", "h-1")),
		}},
		"sub-groups": {topological, sessiontest.ClusterSpec{
			Nodes:      nodes(holds("1"), "a1", "a2", "b1", "b2", "c1", "c2", "d1", "d2"),
			HyperNodes: twoRows,
			PodGroups: []*v1beta1.PodGroup{
				schedtest.MakePodGroup().Name("g").MinMember(4).Topology(hard, 3).SubGroups("pairs", "pair", 2, 2).SubGroupTopology(hard, 1).Obj(),
			},
			Pods: slices.Concat(each(member("g").Label("pair", "0"), "g-0", "g-1"), each(member("g").Label("pair", "1"), "g-2", "g-3")),
		}},
		"queues and gangs": {plain, sessiontest.ClusterSpec{
			Nodes:  nodes(holds("3"), "n1", "n2"),
			Queues: []*v1beta1.Queue{schedtest.MakeQueue().Name("q1").Obj(), schedtest.MakeQueue().Name("q2").Obj()},
			PodGroups: []*v1beta1.PodGroup{
				schedtest.MakePodGroup().Name("g").Queue("q1").MinMember(2).Obj(), schedtest.MakePodGroup().Name("h").Queue("q2").MinMember(2).Obj(),
				schedtest.MakePodGroup().Name("i").Queue("q1").MinMember(2).Obj(), schedtest.MakePodGroup().Name("k").Queue("q2").MinMember(2).Obj(),
			},
			Pods: slices.Concat(each(member("g"), "g-0", "g-1"), each(member("h"), "h-0", "h-1"),
				each(member("i"), "i-0", "i-1"), each(member("k"), "k-0", "k-1")),
		}},
	}
	for name, tc := range worlds {
		t.Run(name, func(t *testing.T) {
			cluster := sessiontest.New(sessiontest.ClusterSpec{})
			defer cluster.Close()
			var first map[string]string
			for i := range 100 {
				cluster.Load(tc.world)
				ssn := behaviour{conf: tc.conf}.open(cluster, defended)
				binds := ssn.Binds()
				ssn.Close()
				if first == nil {
					first = binds
				}
				if diff := cmp.Diff(first, binds); diff != "" {
					t.Fatalf("run %d of the same world (-first +this):\n%s", i, diff)
				}
			}
			if len(first) == 0 {
				t.Error("nothing is bound")
			}
		})
	}
}

// TestGreedyMiss checks that a gang is placed even if one of its members must not take the node that is best for it.
// Upstream places each member on its best node, one after the other, and so may miss the only placement of all.
func TestGreedyMiss(t *testing.T) {
	pod := func(name, cpu string) *v1.Pod { return schedtest.MakePod().Group("g").Name(name).Req(cores(cpu)).Obj() }
	cases := map[string]behaviour{}
	for _, sizes := range [][2]string{{"3", "5"}, {"5", "3"}} {
		for _, room := range [][2]string{{"6", "4"}, {"4", "6"}} {
			nodeOf := map[string]string{}
			for i, size := range sizes {
				node := "n1"
				if (size == "5") != (room[0] == "6") {
					node = "n2"
				}
				nodeOf[fmt.Sprintf("g-%d", i)] = node
			}
			cases[fmt.Sprintf("%v on %v", sizes, room)] = behaviour{
				world: sessiontest.ClusterSpec{
					Nodes:     slices.Concat(nodes(holds(room[0]), "n1"), nodes(holds(room[1]), "n2")),
					PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(2).Obj()},
					Pods:      []*v1.Pod{pod("g-0", sizes[0]), pod("g-1", sizes[1])},
				},
				binds: nodeOf,
			}
		}
	}
	runDefects(t, cases)
}

// TestReserveLeak checks that a refused placement leaves nothing reserved. One plugin reserves something when a task
// is placed on a node, and another plugin then refuses the task. Upstream reverts neither a pipelined task nor, when
// it replays the best trial, the tasks before it.
func TestReserveLeak(t *testing.T) {
	member := func() *schedtest.PodBuilder { return schedtest.MakePod().Group("g").Req(cores("2")) }
	old := schedtest.MakePodGroup().Name("old").Phase(v1beta1.PodGroupRunning).Obj()
	cases := map[string]struct {
		behaviour
		// refuses reports whether the plugin refuses the task when it is placed on the node for the nth time.
		refuses func(pod, node string, nth int) bool
	}{
		"a task that was to wait": {
			behaviour: behaviour{
				conf: plain,
				world: sessiontest.ClusterSpec{
					Nodes:     nodes(holds("2"), "n1"),
					PodGroups: []*v1beta1.PodGroup{old, schedtest.MakePodGroup().Name("g").Obj()},
					Pods:      append(leaving("n1", "2", "old-0"), each(member(), "g-0")...),
				},
			},
			refuses: func(string, string, int) bool { return true },
		},
		"a task that was to be bound": {
			behaviour: behaviour{
				conf: plain,
				world: sessiontest.ClusterSpec{
					Nodes:     nodes(holds("2"), "n1", "n2"),
					PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(2).Obj()},
					Pods:      each(member(), "g-0", "g-1"),
				},
			},
			refuses: func(pod, _ string, _ int) bool { return pod == "g-1" },
		},
		"when the best trial is made again": {
			behaviour: behaviour{
				conf: topological,
				world: sessiontest.ClusterSpec{
					Nodes: nodes(holds("2"), "a1", "a2", "b1", "b2"), HyperNodes: oneRow,
					PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(2).Topology(hard, 1).Obj()},
					Pods:      each(member(), "g-0", "g-1"),
				},
			},
			refuses: func(pod, _ string, nth int) bool { return pod == "g-1" && nth > 1 },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cluster := sessiontest.New(tc.world)
			defer cluster.Close()
			taken := map[string]string{}
			tc.plugins = []framework.PluginSpec{
				plugin("taker", func(ssn *framework.Session) { takes(ssn, taken, nil) }),
				plugin("refuser", func(ssn *framework.Session) { takes(ssn, map[string]string{}, tc.refuses) }),
			}
			tc.conf += "\n- plugins:\n  - name: taker\n  - name: refuser\n"
			before, ssn := tc.dropped(cluster, defended)
			defer ssn.Close()
			if len(ssn.Binds()) > 0 {
				t.Errorf("bound %v, which a plugin refused", ssn.Binds())
			}
			if len(taken) > 0 {
				t.Errorf("still taken: %v", taken)
			}
			if diff := cmp.Diff(before, fingerprint(ssn)); diff != "" {
				t.Errorf("session (-before +after):\n%s", diff)
			}
		})
	}
}

// TestARefusalAtTheLastMoment checks that a node is skipped if a plugin refuses the reservation on it, and that the
// gang is placed elsewhere.
func TestARefusalAtTheLastMoment(t *testing.T) {
	taken := map[string]string{}
	runDefects(t, map[string]behaviour{
		"of one node": {
			conf: plain + "\n- plugins:\n  - name: refuser\n",
			plugins: []framework.PluginSpec{plugin("refuser", func(ssn *framework.Session) {
				takes(ssn, taken, func(_, node string, _ int) bool { return node == "n1" })
			})},
			world: sessiontest.ClusterSpec{
				Nodes:     slices.Concat(nodes(holds("8"), "n1"), nodes(holds("2"), "n2", "n3")),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(2).Obj()},
				Pods:      each(schedtest.MakePod().Group("g").Req(cores("2")), "g-0", "g-1"),
			},
			binds: map[string]string{"g-0": "n2|n3", "g-1": "n2|n3"},
		},
		"of the node that room was made on for the task": {
			conf: plain + "\n- plugins:\n  - name: refuser\n",
			plugins: []framework.PluginSpec{plugin("refuser", func(ssn *framework.Session) {
				takes(ssn, taken, func(_, node string, _ int) bool { return node == "n1" })
			})},
			world: sessiontest.ClusterSpec{
				Nodes:     nodes(holds("2"), "n1", "n2"),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").Obj()},
				Pods:      each(schedtest.MakePod().Group("g").Req(cores("2")).Nominated("n1"), "g-0"),
			},
			binds: map[string]string{"g-0": "n2"},
		},
	})
	if want := []string{"g-0", "g-1"}; !slices.Equal(want, slices.Sorted(maps.Keys(taken))) {
		t.Errorf("reserved for %v, want %v", taken, want)
	}
}

// takes records in taken the node of each placed task, and refuses some tasks.
func takes(ssn *framework.Session, taken map[string]string, refuses func(pod, node string, nth int) bool) {
	times := map[[2]string]int{}
	ssn.AddEventHandler(&vcframework.EventHandler{
		AllocateFunc: func(e *vcframework.Event) {
			pod, node := e.Task.Name, e.Task.NodeName
			times[[2]string{pod, node}]++
			if refuses != nil && refuses(pod, node, times[[2]string{pod, node}]) {
				e.Err = errors.New("refused at the last moment")
				return
			}
			taken[pod] = node
		},
		DeallocateFunc: func(e *vcframework.Event) { delete(taken, e.Task.Name) },
	})
}

// defended is the action that the regression tests run.
var defended = ours

// runDefects runs cases that upstream's action fails.
func runDefects(t *testing.T, cases map[string]behaviour) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cluster := sessiontest.New(tc.world)
			defer cluster.Close()
			tc.run(t, cluster, defended)
		})
	}
}
