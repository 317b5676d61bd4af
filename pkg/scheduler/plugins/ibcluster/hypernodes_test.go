// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// hyperNodes returns HyperNodes for the nodes of the function two: the clusters ib-a and ib-b, and their leaves.
func hyperNodes() []*topologyv1alpha1.HyperNode {
	return []*topologyv1alpha1.HyperNode{
		schedtest.MakeHyperNode().Name("leaf-a1").TierName("leaf").Nodes("a1").Obj(),
		schedtest.MakeHyperNode().Name("leaf-a2").TierName("leaf").Nodes("a2").Obj(),
		schedtest.MakeHyperNode().Name("leaf-b").TierName("leaf").NodesLike("^b").Obj(),
		schedtest.MakeHyperNode().Name("ib-a").Tier(2).TierName("cluster").HyperNodes("leaf-a1", "leaf-a2").Obj(),
		schedtest.MakeHyperNode().Name("ib-b").Tier(2).TierName("cluster").HyperNodes("leaf-b").Obj(),
	}
}

func TestHyperNodes(t *testing.T) {
	tests := map[string]struct {
		hyperNodes []*topologyv1alpha1.HyperNode
		arguments  []string
		wishes     []string
		want       []string
		admitted   string
	}{
		"the highest tier":       {hyperNodes: hyperNodes(), want: []string{"required true", "ib-a", "ib-b"}, admitted: "a1 a2 b1 b2"},
		"a level by tier's name": {hyperNodes: hyperNodes(), wishes: []string{"level=leaf"}, want: []string{"required true", "ib-a/leaf-a1", "ib-a/leaf-a2", "ib-b/leaf-b"}, admitted: "a1 a2 b1 b2"},
		"a level by tier":        {hyperNodes: hyperNodes(), wishes: []string{"level=1", "clusters=ib-b"}, want: []string{"required true", "ib-b/leaf-b", "ib-a/leaf-a1 not: " + notListed, "ib-a/leaf-a2 not: " + notListed}, admitted: "b1 b2"},
		"some tiers":             {hyperNodes: hyperNodes(), arguments: []string{"levels: [leaf]"}, want: []string{"required true", "leaf-a1", "leaf-a2", "leaf-b"}, admitted: "a1 a2 b1 b2"},
		"none":                   {want: []string{"error: plugin ibcluster: required node group not found: the cluster has no HyperNodes"}},
		"a level, and none":      {wishes: []string{"level=leaf"}, want: []string{"error: plugin ibcluster: required node group not found: the cluster has no HyperNodes"}},
		"none of the tier": {hyperNodes: hyperNodes(), arguments: []string{"levels: ['7']"},
			want: []string{"error: plugin ibcluster: required node group not found: no HyperNode of tier 7 has nodes"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := open(t, sessiontest.ClusterSpec{
				Nodes: two(), HyperNodes: tt.hyperNodes, Pods: members("g/0"),
				PodGroups: []*v1beta1.PodGroup{gang("g", 1, append(tt.wishes, "mode=required")...).Obj()},
			}, append(tt.arguments, "source: hypernodes")...)
			if diff := cmp.Diff(tt.want, f.groups("g")); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.admitted, f.admitted("g/0")); diff != "" {
				t.Errorf("accepted nodes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestHyperNodesThatFormNoTree: if the HyperNodes form no tree, a gang that requires one cluster waits.
func TestHyperNodesThatFormNoTree(t *testing.T) {
	f := open(t, sessiontest.ClusterSpec{
		Nodes: two(), HyperNodes: hyperNodes(), Pods: members("g/0", "h/0"),
		PodGroups: []*v1beta1.PodGroup{gang("g", 1, "mode=required").Obj(), gang("h", 1, "mode=preferred").Obj()},
	}, "source: hypernodes")
	for _, hyperNode := range []*topologyv1alpha1.HyperNode{
		schedtest.MakeHyperNode().Name("p").Tier(2).HyperNodes("q").Obj(), schedtest.MakeHyperNode().Name("q").Tier(1).HyperNodes("p").Obj(),
	} {
		_ = f.Cache().HyperNodesInfo.UpdateHyperNode(hyperNode) // fails because the HyperNodes form a cycle
	}
	f.reopen(t, nil)
	want := []string{"error: plugin ibcluster: the HyperNodes do not form a tree; see the events of HyperNodes and the scheduler's log"}
	if diff := cmp.Diff(want, f.groups("g")); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"no wish"}, f.groups("h")); diff != "" {
		t.Errorf("groups of the gang with mode=preferred (-want +got):\n%s", diff)
	}
	if got := f.admitted("g/0"); got != "" {
		t.Errorf("accepted nodes: %s, want none", got)
	}
}

// TestNodeInTwoHyperNodes: a node in two HyperNodes belongs to the first by name. An event reports this once, and again
// if the error changes or returns. A reload of the configuration does not repeat the event.
func TestNodeInTwoHyperNodes(t *testing.T) {
	spec := func(nodesOfB ...string) sessiontest.ClusterSpec {
		return sessiontest.ClusterSpec{
			Nodes: two(), Pods: members("g/0"), PodGroups: []*v1beta1.PodGroup{gang("g", 1, "clusters=ib-b").Obj()},
			HyperNodes: []*topologyv1alpha1.HyperNode{
				schedtest.MakeHyperNode().Name("ib-b").Nodes(nodesOfB...).Obj(), schedtest.MakeHyperNode().Name("ib-a").Nodes("a1", "a2").Obj(),
			},
		}
	}
	f := open(t, spec("b1", "a1"), "source: hypernodes")
	event := `Warning NodeInTwoGroups ib-b: node "a1" is in HyperNodes "ib-a" and "ib-b" of the same tier; "ib-a" is used (first by name); list the node in only one of them`
	check := func(step string, want ...string) {
		t.Helper()
		if diff := cmp.Diff("b1", f.admitted("g/0")); diff != "" {
			t.Errorf("%s: accepted nodes (-want +got):\n%s", step, diff)
		}
		if diff := cmp.Diff(want, f.events.Take()); diff != "" {
			t.Errorf("%s: events (-want +got):\n%s", step, diff)
		}
	}
	check("at first", event)
	f.reopen(t, nil)
	check("again")
	f.reload(t, nil)
	check("after a reload")
	fixed, twice := spec("b1"), spec("b1", "a1")
	f.reopen(t, &fixed)
	check("fixed")
	f.reopen(t, &twice)
	check("wrong for the second time", event)
}
