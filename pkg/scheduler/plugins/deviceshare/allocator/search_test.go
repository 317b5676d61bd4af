// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// state returns the state of the node with its users. order is the seed of the order of its devices.
func (n *testNode) state(t testing.TB, order uint64) *State {
	t.Helper()
	inventory, err := NewInventory(n.object(rand.New(rand.NewPCG(order, 0))), nil, InventoryOptions{AffinityKey: testAffinity})
	if err != nil {
		t.Fatal(err)
	}
	return NewState(inventory).With(n.users())
}

func TestFeasiblePlacementsAreFound(t *testing.T) {
	strategies := []Strategy{nil, LeastAllocated{DefaultWeights}, MostAllocated{DefaultWeights}}
	found := 0
	for seed := range uint64(2000) {
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
				t.Fatalf("seed %d: %+v: refused because of %q, but a choice exists", seed, pod, refusal.Reason)
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
		if scope := node.narrowest(pod); seed < 1000 && scopeOf(c[pod.leading()]) > scope {
			t.Fatalf("seed %d: %+v: allocated %s in scope %s, but a choice in scope %s exists", seed, pod, text(a), scopeOf(c[pod.leading()]), scope)
		}
		if err := node.state(t, seed).With(a).Recheck(request, a); err != nil {
			t.Fatalf("seed %d: %+v: allocated %s: %v", seed, pod, text(a), err)
		}
		again, _ := Allocate(node.state(t, seed+1), request, o)
		if diff := gocmp.Diff(a, again); diff != "" {
			t.Fatalf("seed %d: another order of devices (-first +second):\n%s", seed, diff)
		}
	}
	if found < 200 {
		t.Errorf("only %d requests were feasible", found)
	}
}

func TestManyAskAtOnce(t *testing.T) {
	s := nodeA().state(t).With(whole(3))
	requests := []*Request{
		parse(t, makePod(list(nvidiaName, "3", rdmaName, "1"), "device-joint-allocate", jointPCIe, "device-allocate-hint", vfHint)),
		parse(t, makePod(list(nvidiaName, "8"))),
		parse(t, makePod(list(koordGPU, "50"))),
	}
	var want []string
	for _, r := range requests {
		a, refusal := Allocate(s, r, Options{})
		want = append(want, fmt.Sprint(a.Annotation(), refusal))
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				for i, r := range requests {
					a, refusal := Allocate(s, r, Options{})
					if got := fmt.Sprint(a.Annotation(), refusal); got != want[i] {
						t.Errorf("allocated %s, want %s", got, want[i])
					}
				}
			}
		})
	}
	group.Wait()
}

func TestMembersThatFitTogetherAreFound(t *testing.T) {
	found := 0
	// For these seeds no order of members is enough: the first choice of a member must be forbidden.
	seeds := []uint64{8552, 10704, 11088, 18190, 21164}
	for seed := range uint64(1000) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 2))
		node := randomNode(r, 5, 3, 0)
		templates := []*testPod{randomPod(r), randomPod(r)}
		var pods []*testPod
		var requests []*Request
		for range 2 + r.IntN(2) {
			pod := templates[r.IntN(len(templates))]
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
				t.Errorf("seed %d: refused because of %q, but a choice exists", seed, refusal.Reason)
			}
			continue
		}
		found++
		// A plan may give exclusive members their devices last, so any order without a violation is valid.
		if why := node.violationInAnyOrder(pods, allocations); why != "" {
			t.Errorf("seed %d: %s", seed, why)
		}
	}
	if found < 25 {
		t.Errorf("only %d gangs were feasible", found)
	}
}

// TestTheBestGPUs compares the chosen GPUs with all other choices: the narrowest scope, then the choice that breaks up
// least, then the strategy's score, then the lowest minors.
func TestTheBestGPUs(t *testing.T) {
	strategy := LeastAllocated{DefaultWeights}
	compared := 0
	for seed := range uint64(600) {
		r := rand.New(rand.NewPCG(seed, 9))
		node := randomNode(r, 8, 0, 0)
		node.partitions, node.policy = nil, ""
		pod := &testPod{}
		pod.of[GPU] = testWant{count: 1 + r.IntN(5), percent: 100}
		if r.IntN(2) == 0 {
			pod.of[GPU] = testWant{count: 1 + r.IntN(2), percent: 30}
		}
		s, request := node.state(t, seed), parse(t, pod.pod())
		a, _ := Allocate(s, request, Options{Strategy: strategy})
		if a == nil {
			continue
		}
		compared++
		score := func(devices []*testDevice) (sum float64) {
			for _, d := range devices {
				i, _ := s.index(GPU, d.minor)
				amounts, _ := fill(request.of[GPU].amounts, GPU, &s.Devices[GPU][i])
				sum += strategy.DeviceScore(s, GPU, i, amounts)
			}
			return math.Round(sum * 1e6)
		}
		compare := func(a, b []*testDevice) int {
			minors := func(of []*testDevice) (minors []int32) {
				for _, d := range of {
					minors = append(minors, d.minor)
				}
				return minors
			}
			if pod.of[GPU].count > 1 && scopeOf(a) != scopeOf(b) {
				return cmp.Compare(scopeOf(a), scopeOf(b))
			}
			loss := func(of []*testDevice) int { return -node.freePairs(of) }
			if pod.of[GPU].percent < 100 {
				loss = node.freeNeighbours
			}
			return cmp.Or(cmp.Compare(loss(a), loss(b)), cmp.Compare(score(b), score(a)), slices.Compare(minors(a), minors(b)))
		}
		got, err := node.choiceOf(a)
		if err != nil {
			t.Fatal(err)
		}
		node.eachChoice(func(c *choice) bool {
			if len(c[GPU]) != pod.of[GPU].count || compare(c[GPU], got[GPU]) >= 0 || node.violation(pod, c) != "" {
				return true
			}
			var better []int32
			for _, d := range c[GPU] {
				better = append(better, d.minor)
			}
			t.Errorf("seed %d: %+v: allocated %s, but GPUs %v are better", seed, pod.of[GPU], text(a), better)
			return false
		})
	}
	if compared < 200 {
		t.Errorf("only %d requests were feasible", compared)
	}
}

// freeNeighbours counts the free GPUs on the same PCIe root and on the same NUMA node as each of the devices.
func (n *testNode) freeNeighbours(of []*testDevice) (count int) {
	for _, d := range of {
		for _, other := range n.devices[GPU] {
			if !other.healthy || other.inUse() {
				continue
			}
			if d.pcie != "" && other.pcie == d.pcie {
				count++
			}
			if d.numa >= 0 && other.numa == d.numa {
				count++
			}
		}
	}
	return count
}

// freePairs counts the ordered pairs of free GPUs on the same PCIe root and on the same NUMA node, without the taken
// devices.
func (n *testNode) freePairs(taken []*testDevice) (pairs int) {
	for _, a := range n.devices[GPU] {
		for _, b := range n.devices[GPU] {
			if !a.healthy || !b.healthy || a.inUse() || b.inUse() || slices.Contains(taken, a) || slices.Contains(taken, b) {
				continue
			}
			if a.pcie != "" && a.pcie == b.pcie {
				pairs++
			}
			if a.numa >= 0 && a.numa == b.numa {
				pairs++
			}
		}
	}
	return pairs
}
