// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// prepare runs the pre-bind steps of the gang's members. It returns the result of each member, by index.
func (f *fixture) prepare(t *testing.T, group string) []string {
	t.Helper()
	handed := f.session.Handed()
	var out []string
	for _, pod := range slices.Sorted(maps.Keys(handed)) {
		index, ok := strings.CutPrefix(pod, "ns/"+group+"-")
		if !ok {
			continue
		}
		said := "goes on"
		for _, step := range handed[pod].Steps {
			err := step.PreBind(t.Context(), handed[pod].Task, handed[pod].Node)
			if err != nil {
				said = err.Error()
			}
			if step.Plugin == Name && fmt.Sprint(step.PreCommitCheck(handed[pod].Task, handed[pod].Node)) != fmt.Sprint(err) {
				t.Errorf("the pre-commit check returns another result than the pre-bind step: %v", err)
			}
		}
		out = append(out, index+": "+said)
	}
	return out
}

// relabelled returns the nodes of the texts with changes, by node name. An empty text removes the node.
func relabelled(before []string, changes map[string]string) []*v1.Node {
	var after []string
	for _, text := range before {
		name, _, _ := strings.Cut(text, " ")
		if change, ok := changes[name]; ok {
			text = change
		}
		if text != "" {
			after = append(after, text)
		}
	}
	return nodes(after...)
}

// TestHyperNodesThatChangeBeforeTheBind: only the HyperNode of the gang's tier that contains the node counts, not the
// HyperNodes above it.
func TestHyperNodesThatChangeBeforeTheBind(t *testing.T) {
	const gone = "; the gang must be in one node group"
	leaf := func(name string, nodes ...string) *topologyv1alpha1.HyperNode {
		return schedtest.MakeHyperNode().Name(name).TierName("leaf").Nodes(nodes...).Obj()
	}
	cluster := func(name string, leaves ...string) *topologyv1alpha1.HyperNode {
		return schedtest.MakeHyperNode().Name(name).Tier(2).TierName("cluster").HyperNodes(leaves...).Obj()
	}
	initial := []*topologyv1alpha1.HyperNode{leaf("l1", "a1", "a2"), leaf("l2", "b1"), cluster("ib-a", "l1"), cluster("ib-b", "l2")}
	tests := map[string]struct {
		wishes []string
		nodes  []*v1.Node
		after  []*topologyv1alpha1.HyperNode
		want   []string
	}{
		"nothing changed": {wishes: []string{"mode=required"}, after: initial, want: []string{"0: goes on", "1: goes on"}},
		"a node moves to a leaf of another cluster": {
			wishes: []string{"mode=required"},
			after:  []*topologyv1alpha1.HyperNode{leaf("l1", "a1"), leaf("l2", "b1", "a2"), cluster("ib-a", "l1"), cluster("ib-b", "l2")},
			want:   []string{"0: goes on", "1: node a2 moved from ib-a to ib-b (by HyperNodes of tier 2) after the gang was placed" + gone},
		},
		"a tier around the others": {
			wishes: []string{"mode=required"},
			after:  append(slices.Clone(initial), schedtest.MakeHyperNode().Name("world").Tier(3).HyperNodes("ib-a", "ib-b").Obj()),
			want:   []string{"0: goes on", "1: goes on"},
		},
		"the leaf moves with all its nodes": {
			wishes: []string{"level=leaf"}, after: []*topologyv1alpha1.HyperNode{leaf("l1", "a1", "a2"), leaf("l2", "b1"), cluster("ib-b", "l1", "l2")},
			want: []string{"0: goes on", "1: goes on"},
		},
		"the leaf moves out of the clusters that may be": {
			wishes: []string{"level=leaf", "clusters=ib-a"}, after: []*topologyv1alpha1.HyperNode{leaf("l1", "a1", "a2"), leaf("l2", "b1"), cluster("ib-b", "l1", "l2")},
			want: []string{
				"0: node a1 moved from ib-a to ib-b (by HyperNodes of tier 2) after the gang was placed; annotation " + ClustersAnnotation + " does not list that cluster",
				"1: node a2 moved from ib-a to ib-b (by HyperNodes of tier 2) after the gang was placed; annotation " + ClustersAnnotation + " does not list that cluster",
			},
		},
		"the leaf moves away from its affinity group": {
			wishes: []string{"level=leaf", "affinity-group=ring"}, after: []*topologyv1alpha1.HyperNode{leaf("l1", "a1", "a2"), leaf("l2", "b1"), cluster("ib-b", "l1", "l2")},
			want: []string{
				"0: node a1 moved from ib-a to ib-b (by HyperNodes of tier 2) after the gang was placed; affinity group ring must be in one cluster",
				"1: node a2 moved from ib-a to ib-b (by HyperNodes of tier 2) after the gang was placed; affinity group ring must be in one cluster",
			},
		},
		"the HyperNodes are removed": {
			wishes: []string{"mode=required"},
			want: []string{
				"0: node a1 moved from ib-a to no node group (by HyperNodes of tier 2) after the gang was placed" + gone,
				"1: node a2 moved from ib-a to no node group (by HyperNodes of tier 2) after the gang was placed" + gone,
			},
		},
		"the node is deleted, and its HyperNode still names it": {
			wishes: []string{"mode=required"}, nodes: nodes("a1", "b1"), after: initial,
			want: []string{"0: goes on", "1: node a2 no longer exists; it was in ib-a when the gang was placed"},
		},
		"a preferred gang": {wishes: []string{"mode=preferred"}, want: []string{"0: goes on", "1: goes on"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := sessiontest.ClusterSpec{
				Nodes: nodes("a1", "a2", "b1"), HyperNodes: initial, PodGroups: []*v1beta1.PodGroup{gang("g", 2, tt.wishes...).Obj()}, Pods: sized("4", "g/0", "g/1"),
			}
			f := open(t, before, "source: hypernodes")
			f.allocate(t)
			if got := f.bindings("g"); got != "0:a1 1:a2" {
				t.Fatalf("the bindings are %q", got)
			}
			after := before
			after.HyperNodes = tt.after
			if tt.nodes != nil {
				after.Nodes = tt.nodes
			}
			f.Load(after)
			if diff := cmp.Diff(tt.want, f.prepare(t, "g")); diff != "" {
				t.Errorf("members (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNoStepWhereNoGangIsBound: each step costs a goroutine per member, so gangs without a requirement have none.
func TestNoStepWhereNoGangIsBound(t *testing.T) {
	f := open(t, sessiontest.ClusterSpec{Nodes: two(), PodGroups: []*v1beta1.PodGroup{gang("g", 1, "mode=preferred").Obj()}, Pods: members("g/0")})
	f.allocate(t)
	for _, step := range f.session.Handed()["ns/g-0"].Steps {
		if step.Plugin == Name {
			t.Error("the member has a pre-bind step")
		}
	}
}

// TestAGangThatLosesANodeIsBoundWholeOrNotAtAll checks that all members fail, although their steps run concurrently.
func TestAGangThatLosesANodeIsBoundWholeOrNotAtAll(t *testing.T) {
	for source, hyperNodes := range map[string][]*topologyv1alpha1.HyperNode{"labels": nil, "hypernodes": hyperNodes()} {
		t.Run(source, func(t *testing.T) {
			names := []string{"g/0", "g/1", "g/2", "g/3", "g/4", "g/5", "g/6", "g/7"}
			spec := sessiontest.ClusterSpec{
				Nodes: two(), HyperNodes: hyperNodes, PodGroups: []*v1beta1.PodGroup{gang("g", 8, "mode=required").Obj()}, Pods: members(names...),
			}
			f := open(t, spec, "source: "+source)
			f.allocate(t)
			whole := sessiontest.Fate{Minimum: len(names)}
			if result := sessiontest.Transact(f.session, f.job("g").UID, whole).Wait(); len(result.Bound) != len(names) {
				t.Errorf("%d members are bound without a change, want %d", len(result.Bound), len(names))
			}
			left := f.session.Handed()["ns/g-7"].Node
			spec.Nodes = relabelled([]string{"a1 ib-a", "a2 ib-a", "b1 ib-b", "b2 ib-b", "x"}, map[string]string{left: left})
			for _, hyperNode := range hyperNodes {
				changed := hyperNode.DeepCopy()
				changed.Spec.Members = slices.DeleteFunc(changed.Spec.Members, func(m topologyv1alpha1.MemberSpec) bool {
					return m.Selector.ExactMatch != nil && m.Selector.ExactMatch.Name == left
				})
				spec.HyperNodes = append(slices.DeleteFunc(slices.Clone(spec.HyperNodes), func(h *topologyv1alpha1.HyperNode) bool { return h == hyperNode }), changed)
			}
			f.Load(spec)
			if result := sessiontest.Transact(f.session, f.job("g").UID, whole).Wait(); len(result.Bound) != 0 {
				t.Errorf("%d members are bound after node %s left the cluster, want none", len(result.Bound), left)
			}
		})
	}
}
