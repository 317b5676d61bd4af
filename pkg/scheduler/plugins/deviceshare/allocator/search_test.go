// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// randomState is the node with its users, its devices listed in an order that the seed gives.
func (n *testNode) state(t testing.TB, order uint64) *State {
	t.Helper()
	inventory, err := NewInventory(n.object(rand.New(rand.NewPCG(order, 0))), nil, InventoryOptions{AffinityKey: testAffinity})
	if err != nil {
		t.Fatal(err)
	}
	return NewState(inventory).With(n.users())
}

func TestWhatIsFeasibleIsFound(t *testing.T) {
	strategies := []Strategy{nil, LeastAllocated{DefaultWeights}, MostAllocated{DefaultWeights}}
	found := 0
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 1))
		node, pod := randomNode(r, 5, 4, 2), randomPod(r)
		request, err := ParseRequest(pod.pod(), RequestOptions{})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if request == nil {
			continue
		}
		o := Options{Strategy: strategies[r.IntN(len(strategies))]}
		a, refusal := Allocate(node.state(t, seed), request, o)
		if refusal != nil {
			if node.feasible(pod) {
				t.Fatalf("seed %d: %+v: refused for %q, but there is a choice", seed, pod, refusal.Reason)
			}
			continue
		}
		found++
		c, err := node.choiceOf(a)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if why := node.violation(pod, c); why != "" {
			t.Fatalf("seed %d: %+v: allocated %s: %s", seed, pod, text(a), why)
		}
		again, _ := Allocate(node.state(t, seed+1), request, o)
		if diff := cmp.Diff(a, again); diff != "" {
			t.Fatalf("seed %d: another order of devices (-first +second):\n%s", seed, diff)
		}
	}
	if found < 400 {
		t.Errorf("only %d requests were feasible", found)
	}
}

func TestMembersThatFitTogetherAreFound(t *testing.T) {
	found := 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 2))
		node := randomNode(r, 5, 3, 0)
		kinds := []*testPod{randomPod(r), randomPod(r)}
		var pods []*testPod
		var requests []*Request
		for range 2 + r.IntN(2) {
			pod := kinds[r.IntN(len(kinds))]
			request, err := ParseRequest(pod.pod(), RequestOptions{})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if request != nil {
				pods, requests = append(pods, pod), append(requests, request)
			}
		}
		allocations, refusal := AllocateTogether(node.state(t, seed), requests, Options{})
		if refusal != nil {
			if node.feasibleTogether(pods) {
				t.Errorf("seed %d: refused for %q, but there is a choice", seed, refusal.Reason)
			}
			continue
		}
		found++
		// Of a plan, exclusive members may take their devices last: rules are checked in any order that has no violation.
		if why := node.violationInAnyOrder(pods, allocations); why != "" {
			t.Errorf("seed %d: %s", seed, why)
		}
	}
	if found < 50 {
		t.Errorf("only %d gangs were feasible", found)
	}
}
