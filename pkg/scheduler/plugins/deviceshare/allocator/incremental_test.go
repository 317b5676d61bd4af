// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volcano-prebind/volcano-prebind/internal/rounds"
)

// tightNode returns a random node on which members often compete for the same devices.
func tightNode(r *rand.Rand, gpus, nics int, partitions bool) *testNode {
	n := &testNode{}
	perRoot := 1 + r.IntN(3)
	for t, count := range []int{gpus, nics} {
		for minor := range count {
			root := minor / perRoot
			if Type(t) == RDMA {
				root = r.IntN(max(1, gpus/perRoot))
			}
			d := &testDevice{typ: Type(t), minor: int32(minor), numa: root % 2, pcie: strconv.Itoa(root), healthy: true, memoryGiB: 16}
			if r.IntN(4) == 0 {
				d.used = int64(10 * r.IntN(11))
			}
			n.devices[t] = append(n.devices[t], d)
		}
	}
	if partitions {
		n.partitions, n.policy = map[string][]testPartition{}, "Honor"
		for range 3 + r.IntN(12) {
			size := 2 + r.IntN(2)
			p := testPartition{AllocationScore: r.IntN(2)}
			for _, minor := range r.Perm(gpus)[:size] {
				p.Minors = append(p.Minors, int32(minor))
			}
			n.partitions[strconv.Itoa(size)] = append(n.partitions[strconv.Itoa(size)], p)
		}
	}
	return n
}

// holdsAlike reports whether this number of pods with equal requests can have devices together, by trying all choices.
func (n *testNode) holdsAlike(p *testPod, count int) bool { return n.holdsAlikeIn(0, p, count) }

// holdsAlikeIn does the same with choices whose GPUs share exactly this scope; 0 means any scope.
func (n *testNode) holdsAlikeIn(scope Scope, p *testPod, count int) bool {
	var choices []*choice
	n.eachChoice(func(c *choice) bool {
		if n.violation(p, c) == "" && (scope == 0 || scopeOf(c[GPU]) == scope) {
			choices = append(choices, c)
		}
		return true
	})
	var place func(left, from int) bool
	place = func(left, from int) bool {
		if left == 0 {
			return true
		}
		for at := from; at < len(choices); at++ {
			if n.violation(p, choices[at]) != "" {
				continue
			}
			undo := n.take(p, choices[at])
			ok := place(left-1, at)
			undo()
			if ok {
				return true
			}
		}
		return false
	}
	return place(count, 0)
}

var planPercent = rounds.Flag("plan.percent", 25, 100, "how many percent of the random nodes are tried that any plan has room on")

// TestMembersThatComeOneByOneFindRoomWhereAnyPlanHasIt checks that members which are placed one by one find devices as
// long as any joint plan for all of them exists.
func TestMembersThatComeOneByOneFindRoomWhereAnyPlanHasIt(t *testing.T) {
	tests := map[string]struct {
		nics       bool
		partitions bool
		seeds      uint64
		pod        func(r *rand.Rand) *testPod
	}{
		"shares of several": {pod: func(r *rand.Rand) *testPod {
			p := &testPod{}
			p.of[GPU] = testWant{count: 2 + r.IntN(2), percent: []int64{30, 40, 50, 60}[r.IntN(4)], scope: []string{"", "", "NUMANode", "PCIe"}[r.IntN(4)]}
			return p
		}},
		"by partition": {partitions: true, pod: func(r *rand.Rand) *testPod {
			p := &testPod{}
			p.of[GPU] = testWant{count: 2 + r.IntN(2), percent: 100}
			return p
		}},
		"jointly": {nics: true, seeds: 800, pod: func(r *rand.Rand) *testPod {
			p := &testPod{joint: []Type{GPU, RDMA}, samePCIe: r.IntN(2) == 0}
			p.of[GPU] = testWant{count: 1 + r.IntN(3), percent: 100}
			p.of[RDMA] = testWant{count: 1, percent: []int64{100, 50}[r.IntN(2)]}
			return p
		}},
		"alone on their PCIe roots": {pod: func(r *rand.Rand) *testPod {
			p := &testPod{}
			p.of[GPU] = testWant{count: 1 + r.IntN(3), percent: 100, exclusive: "PCIeLevel"}
			return p
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			planned := 0
			for seed := range max(tt.seeds, 120) * uint64(planPercent.Of(t)) / 100 {
				r := rand.New(rand.NewPCG(seed, 5))
				gpus, nics := 6+r.IntN(2), 0
				if tt.nics {
					gpus, nics = 5, 3
				}
				node, pod := tightNode(r, gpus, nics, tt.partitions), tt.pod(r)
				request := parse(t, pod.pod())
				start := node.state(t, seed)
				s := start
				var requests []*Request
				var had []*Allocation
				for {
					if _, refusal := Allocate(s, request, Options{}); refusal != nil {
						if node.holdsAlike(pod, len(had)+1) {
							t.Fatalf("seed %d: %+v: member %d is refused because of %q, but a choice for all members exists", seed, pod, len(had), refusal.Reason)
						}
						break
					}
					requests, had = append(requests, request), append(had, nil)
					next, refusal := AllocateOneMore(s, requests, had, request, Options{})
					if refusal != nil {
						t.Fatalf("seed %d: %+v: refused because of %q, but the node has room", seed, pod, refusal.Reason)
					}
					had, s = next, start
					for _, a := range had {
						s = s.With(a)
					}
				}
				if len(had) > 1 {
					planned++
				}
				pods := slices.Repeat([]*testPod{pod}, len(had))
				if why := node.violationInAnyOrder(pods[:min(5, len(pods))], had[:min(5, len(had))]); why != "" {
					t.Fatalf("seed %d: %+v: %s", seed, pod, why)
				}
			}
			if planned < planPercent.Of(t)/10 {
				t.Errorf("only %d nodes hold more than one member", planned)
			}
		})
	}
}

// TestMembersAloneOnTheirPCIeRootsTakeLargeOnesWithSmallOnes: each of three members needs three GPUs, on PCIe roots of
// its own. Three roots have one GPU and three have two, so each member must take a root of each kind. If the first
// member took the three small roots, it would break up least, but too few roots would remain for the others.
func TestMembersAloneOnTheirPCIeRootsTakeLargeOnesWithSmallOnes(t *testing.T) {
	r := parse(t, makePod(list(nvidiaName, "3"), "device-allocate-hint", `{"gpu":{"exclusivePolicy":"PCIeLevel"}}`))
	start := oddRoots().state(t)
	s, had := start, []*Allocation(nil)
	for n := range 3 {
		if _, refusal := Allocate(s, r, Options{}); refusal != nil {
			t.Fatalf("member %d: %s", n, refusal.Reason)
		}
		next, refusal := AllocateOneMore(s, slices.Repeat([]*Request{r}, n+1), append(had, nil), r, Options{})
		if refusal != nil {
			t.Fatalf("member %d: %s", n, refusal.Reason)
		}
		had, s = next, inUse(start, next...)
	}
}

// TestManySharesOfSeveralFillANode checks that a plan for many members uses first the devices with room for most
// shares.
func TestManySharesOfSeveralFillANode(t *testing.T) {
	r := parse(t, makePod(list(sharedName, "3", coreName, "60", ratioName, "60")))
	s := nodeA().state(t).With(part(40, 0, 1, 2))
	// Each share is 20 hundredths. Three devices have room for three shares each, and five devices for five each. These
	// are 34 shares, enough for 11 members with three shares each.
	requests := slices.Repeat([]*Request{r}, 11)
	if _, refusal := AllocateTogether(s, requests, Options{}); refusal != nil {
		t.Errorf("11 members are refused although they fit: %s", refusal.Reason)
	}
	if _, refusal := AllocateTogether(s, append(requests, r), Options{}); refusal == nil {
		t.Error("12 members are accepted, want at most 11")
	}
}

// TestOneMoreMember checks when the other members keep their devices: if the new member has the highest rank, and finds
// devices in the same scope as members with equal requests. Even then, members with equal requests may exchange
// devices.
func TestOneMoreMember(t *testing.T) {
	gpus := func(n string) *Request { return parse(t, makePod(list(nvidiaName, n))) }
	hinted := parse(t, makePod(list(nvidiaName, "2"), "device-allocate-hint", `{"gpu":{"requiredTopologyScope":"PCIe"}}`))
	tests := map[string]struct {
		used     []*Allocation
		requests []*Request
		had      []*Allocation
		want     string
	}{
		"others keep what they have":              {requests: []*Request{gpus("2"), gpus("2")}, had: []*Allocation{whole(2, 3), nil}, want: "gpu 0,1 | gpu 2,3"},
		"unlike others keep what they have":       {requests: []*Request{gpus("2"), gpus("1")}, had: []*Allocation{whole(2, 3), nil}, want: "gpu 2,3 | gpu 0"},
		"equal ones are to have equal scopes":     {used: []*Allocation{whole(3, 5, 7)}, requests: []*Request{gpus("2"), gpus("2")}, had: []*Allocation{whole(0, 1), nil}, want: "gpu 0,2 | gpu 4,6"},
		"one of a lower rank":                     {requests: []*Request{gpus("1"), gpus("2")}, had: []*Allocation{nil, whole(0, 1)}, want: "gpu 0 | gpu 2,3"},
		"one that needs what another has":         {used: []*Allocation{whole(3, 5, 7)}, requests: []*Request{gpus("1"), hinted}, had: []*Allocation{whole(0), nil}, want: "gpu 4 | gpu 0,1"},
		"the first":                               {requests: []*Request{gpus("2")}, had: []*Allocation{nil}, want: "gpu 0,1"},
		"what others have is in no request's way": {requests: []*Request{gpus("4"), gpus("4")}, had: []*Allocation{whole(4, 5, 6, 7), nil}, want: "gpu 0,1,2,3 | gpu 4,5,6,7"},
		"one of whom others are not of one part":  {requests: []*Request{gpus("3"), gpus("5")}, had: []*Allocation{whole(0, 2, 4), nil}, want: "gpu 0,2,4 | gpu 1,3,5,6,7"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := inUse(nodeA().state(t), tt.used...)
			for _, a := range tt.had {
				s = s.With(a)
			}
			got, refusal := AllocateOneMore(s, tt.requests, tt.had, nil, Options{})
			if refusal != nil {
				t.Fatalf("refused: %s", refusal.Reason)
			}
			var texts []string
			for _, a := range got {
				texts = append(texts, text(a))
			}
			if diff := cmp.Diff(tt.want, strings.Join(texts, " | ")); diff != "" {
				t.Errorf("allocations (-want +got):\n%s", diff)
			}
		})
	}
}
