// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// holdsTogether reports whether all pods can have devices together, by trying all choices.
func (n *testNode) holdsTogether(pods []*testPod) bool {
	choices := map[*testPod][]*choice{}
	for _, p := range pods {
		if choices[p] == nil {
			n.eachChoice(func(c *choice) bool {
				if n.violation(p, c) == "" {
					choices[p] = append(choices[p], c)
				}
				return true
			})
		}
	}
	var place func(left []*testPod) bool
	place = func(left []*testPod) bool {
		if len(left) == 0 {
			return true
		}
		for _, c := range choices[left[0]] {
			if n.violation(left[0], c) != "" {
				continue
			}
			undo := n.take(left[0], c)
			ok := place(left[1:])
			undo()
			if ok {
				return true
			}
		}
		return false
	}
	return place(pods)
}

// TestUnlikeMembersFindRoomWhereAnyPlanHasIt checks that a member is refused only if no choice of devices serves both
// it and the members that are already on the node.
func TestUnlikeMembersFindRoomWhereAnyPlanHasIt(t *testing.T) {
	tests := map[string]struct {
		nics, partitions bool
		seeds            []uint64
		want             func(r *rand.Rand) *testPod
	}{
		"shares of several": {seeds: []uint64{812, 1009, 1277, 2024, 4268, 2663}, want: func(r *rand.Rand) *testPod {
			p := &testPod{}
			p.of[GPU] = testWant{count: 1 + r.IntN(3), percent: []int64{30, 40, 60, 100}[r.IntN(4)], scope: []string{"", "", "NUMANode", "PCIe"}[r.IntN(4)]}
			return p
		}},
		"by partition": {partitions: true, want: func(r *rand.Rand) *testPod {
			p := &testPod{}
			p.of[GPU] = testWant{count: 2 + r.IntN(2), percent: 100}
			return p
		}},
		"jointly": {nics: true, want: func(r *rand.Rand) *testPod {
			p := &testPod{joint: []Type{GPU, RDMA}, samePCIe: r.IntN(2) == 0}
			p.of[GPU] = testWant{count: 1 + r.IntN(2), percent: []int64{100, 50}[r.IntN(2)]}
			p.of[RDMA] = testWant{count: 1, percent: []int64{100, 50}[r.IntN(2)]}
			return p
		}},
		"alone on their PCIe roots": {seeds: []uint64{1294, 5719}, want: func(r *rand.Rand) *testPod {
			p := &testPod{}
			p.of[GPU] = testWant{count: 1 + r.IntN(2), percent: []int64{100, 50}[r.IntN(2)], exclusive: []string{"", "DeviceLevel", "PCIeLevel"}[r.IntN(3)]}
			return p
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			planned := 0
			seeds := tt.seeds // seeds for which an earlier search found no devices
			for seed := range uint64(200 * planPercent.Of(t) / 100) {
				seeds = append(seeds, seed)
			}
			for _, seed := range seeds {
				r := rand.New(rand.NewPCG(seed, 6))
				gpus, nics := 6, 0
				if tt.nics {
					gpus, nics = 5, 3
				}
				node := tightNode(r, gpus, nics, tt.partitions)
				templates := []*testPod{tt.want(r), tt.want(r), tt.want(r)}
				start := node.state(t, seed)
				s := start
				var pods []*testPod
				var requests []*Request
				var had []*Allocation
				for range 6 {
					pod := templates[r.IntN(len(templates))]
					asked := append(slices.Clip(requests), parse(t, pod.pod()))
					next, refusal := AllocateOneMore(s, asked, append(slices.Clip(had), nil), nil, Options{})
					if refusal != nil {
						if node.holdsTogether(append(slices.Clip(pods), pod)) {
							t.Errorf("seed %d: member %d is refused because of %q, but a choice for all members exists", seed, len(had), refusal.Reason)
						}
						continue
					}
					pods, requests, had, s = append(pods, pod), asked, next, start
					for _, a := range had {
						s = s.With(a)
					}
				}
				if len(had) > 1 {
					planned++
				}
				if why := node.violationInAnyOrder(pods[:min(5, len(pods))], had[:min(5, len(had))]); why != "" {
					t.Fatalf("seed %d: %s", seed, why)
				}
			}
			if planned < planPercent.Of(t)/2 {
				t.Errorf("only %d nodes hold more than one member", planned)
			}
		})
	}
}
