// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// showHyperNode adds or updates the HyperNode in the cluster and notifies the cache.
func showHyperNode(w *harness, hyperNode *topologyv1alpha1.HyperNode) {
	w.t.Helper()
	if err := w.cache.sources.volcano.Topology().V1alpha1().HyperNodes().Informer().GetStore().Add(hyperNode); err != nil {
		w.t.Fatal(err)
	}
	w.cache.changes.hyperNodeChanged(hyperNode)
}

// seenNodes returns the HyperNodes that a session sees, each with its nodes.
func seenNodes(w *harness) map[string][]string {
	snapshot, _, _ := w.cache.SessionSnapshot()
	seen := map[string][]string{}
	for name := range snapshot.HyperNodes {
		seen[name] = sets.List(snapshot.RealNodesSet[name])
	}
	return seen
}

// member returns a HyperNode with one member.
func member(name string, memberType topologyv1alpha1.MemberType, selector topologyv1alpha1.MemberSelector) *topologyv1alpha1.HyperNode {
	hyperNode := schedtest.MakeHyperNode().Name(name).Tier(2).Obj()
	hyperNode.Spec.Members = []topologyv1alpha1.MemberSpec{{Type: memberType, Selector: selector}}
	return hyperNode
}

// younger makes the HyperNode younger than the others.
func younger(hyperNode *topologyv1alpha1.HyperNode) *topologyv1alpha1.HyperNode {
	hyperNode.CreationTimestamp = metav1.NewTime(schedtest.Created.Add(time.Minute))
	return hyperNode
}

func TestACorrectedHyperNodeCounts(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		showHyperNode(w, schedtest.MakeHyperNode().Name("a").NodesLike("(").Obj())
		if diff := cmp.Diff(map[string][]string{}, seenNodes(w)); diff != "" {
			t.Errorf("before (-want +got):\n%s", diff)
		}
		w.add(schedtest.MakeNode().Name("n").Obj())
		w.woken()
		showHyperNode(w, schedtest.MakeHyperNode().Name("a").NodesLike("^n$").Obj())
		if diff := cmp.Diff([]Urgency{WakeNow}, w.woken()); diff != "" {
			t.Errorf("wake-ups (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string][]string{"a": {"n"}}, seenNodes(w)); diff != "" {
			t.Errorf("after (-want +got):\n%s", diff)
		}
	})
}

func TestHyperNodesFollowNodes(t *testing.T) {
	node := func(name, rack string) *v1.Node { return schedtest.MakeNode().Name(name).Label("rack", rack).Obj() }
	withHarness(t, func(t *testing.T, w *harness) {
		showHyperNode(w, schedtest.MakeHyperNode().Name("like").NodesLike("^n[0-9]$").Obj())
		showHyperNode(w, schedtest.MakeHyperNode().Name("rack").NodesLabelled("rack", "a").Nodes("n9").Obj())
		showHyperNode(w, schedtest.MakeHyperNode().Name("top").Tier(2).HyperNodes("rack").Obj())
		for _, step := range []struct {
			does string
			f    func()
			seen map[string][]string
		}{
			{"nodes come", func() { w.add(node("n0", "a"), node("n1", "b"), node("m", "a")) },
				map[string][]string{"like": {"n0", "n1"}, "rack": {"m", "n0", "n9"}, "top": {"m", "n0", "n9"}}},
			{"a label changes", func() { w.add(node("n1", "a"), node("m", "b")) },
				map[string][]string{"like": {"n0", "n1"}, "rack": {"n0", "n1", "n9"}, "top": {"n0", "n1", "n9"}}},
			{"a node goes", func() { w.remove(node("n0", "a")) },
				map[string][]string{"like": {"n1"}, "rack": {"n1", "n9"}, "top": {"n1", "n9"}}},
		} {
			step.f()
			if diff := cmp.Diff(step.seen, seenNodes(w)); diff != "" {
				t.Errorf("when %s (-want +got):\n%s", step.does, diff)
			}
		}
		info := w.cache.hyperNodes.current()
		w.add(schedtest.MakeNode().Name("elsewhere").Obj())
		if w.cache.hyperNodes.current() != info {
			t.Error("the HyperNodes were rebuilt for a node that is in none")
		}
	})
}

func TestMessagesOfInvalidHyperNodesAreShort(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for name, hyperNode := range map[string]*topologyv1alpha1.HyperNode{
		"a pattern":   schedtest.MakeHyperNode().Name("a").NodesLike("(" + long).Obj(),
		"a type":      member("a", topologyv1alpha1.MemberType(long), topologyv1alpha1.MemberSelector{}),
		"an operator": member("a", "Node", topologyv1alpha1.MemberSelector{LabelMatch: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: metav1.LabelSelectorOperator(long)}}}}),
	} {
		_, faults := tree([]*claim{readClaim(hyperNode)})
		if len(faults) != 1 || len(faults[0].message) > brief.Most {
			t.Errorf("%s: %d faults, want one of at most %d bytes", name, len(faults), brief.Most)
		}
	}
}

// TestHyperNodesAreUpstreams checks that random forests of HyperNodes yield the same nodes, children and tiers as
// upstream's code.
func TestHyperNodesAreUpstreams(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		nodes := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})
		var list []*v1.Node
		for i := range rng.IntN(12) {
			node := schedtest.MakeNode().Name(fmt.Sprintf("n%d", i)).Label("rack", fmt.Sprint(rng.IntN(3))).Obj()
			list = append(list, node)
			if err := nodes.Add(node); err != nil {
				t.Fatal(err)
			}
		}
		var hyperNodes []*topologyv1alpha1.HyperNode
		for i := range 1 + rng.IntN(8) {
			b := schedtest.MakeHyperNode().Name(fmt.Sprintf("h%d", i)).Tier(1 + i)
			switch rng.IntN(3) {
			case 0:
				b.Nodes(fmt.Sprintf("n%d", rng.IntN(12)))
			case 1:
				b.NodesLike(fmt.Sprintf("n[%d-9]", rng.IntN(9)))
			case 2:
				b.NodesLabelled("rack", fmt.Sprint(rng.IntN(3)))
			}
			hyperNodes = append(hyperNodes, b.Obj())
		}
		for i := range len(hyperNodes) - 1 { // each in one HyperNode above it, or in none
			if above := i + 1 + rng.IntN(len(hyperNodes)-i); above < len(hyperNodes) {
				hyperNodes[above].Spec.Members = append(hyperNodes[above].Spec.Members,
					schedtest.MakeHyperNode().HyperNodes(hyperNodes[i].Name).Obj().Spec.Members...)
			}
		}
		rng.Shuffle(len(hyperNodes), func(i, j int) { hyperNodes[i], hyperNodes[j] = hyperNodes[j], hyperNodes[i] })

		upstream := api.NewHyperNodesInfo(corelisters.NewNodeLister(nodes))
		var claims []*claim
		for _, hyperNode := range hyperNodes {
			if err := upstream.UpdateHyperNode(hyperNode); err != nil {
				t.Fatal(err)
			}
			c := readClaim(hyperNode)
			for _, node := range list {
				c.matchNode(node.Name, node)
			}
			claims = append(claims, c)
		}
		ours, faults := tree(claims)

		if len(faults) > 0 {
			t.Fatalf("seed %d: faults %v", seed, faults)
		}
		for what, both := range map[string][2]any{
			"HyperNodes": {describeHyperNodes(upstream), describeHyperNodes(ours)}, "tiers": {upstream.HyperNodesSetByTier(), ours.HyperNodesSetByTier()},
			"nodes": {upstream.RealNodesSet(), ours.RealNodesSet()}, "ready": {upstream.Ready(), ours.Ready()},
		} {
			if diff := cmp.Diff(both[0], both[1]); diff != "" {
				t.Errorf("seed %d: %s (-upstream +ours):\n%s", seed, what, diff)
			}
		}
	}
}

func describeHyperNodes(info *api.HyperNodesInfo) []string {
	var all []string
	for _, hyperNode := range info.HyperNodes() {
		all = append(all, fmt.Sprint(hyperNode, sets.List(hyperNode.Children)))
	}
	slices.Sort(all)
	return all
}

// TestHyperNodesOutsideOfSessions checks that plugins see changes of HyperNodes outside of sessions as soon as the
// watch shows them, and the same tree while nothing changes.
func TestHyperNodesOutsideOfSessions(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		showHyperNode(w, schedtest.MakeHyperNode().Name("leaf").Nodes("n0").Obj())
		before := w.cache.handle.HyperNodes()
		if diff := cmp.Diff(map[string]sets.Set[string]{"leaf": sets.New("n0")}, before.RealNodesSet()); diff != "" {
			t.Errorf("nodes (-want +got):\n%s", diff)
		}
		if w.cache.handle.HyperNodes() != before {
			t.Error("they are rebuilt although nothing changed")
		}
		showHyperNode(w, schedtest.MakeHyperNode().Name("leaf").Nodes("n1").Obj())
		if diff := cmp.Diff(map[string]sets.Set[string]{"leaf": sets.New("n1")}, w.cache.handle.HyperNodes().RealNodesSet()); diff != "" {
			t.Errorf("nodes after a change (-want +got):\n%s", diff)
		}
	})
}
