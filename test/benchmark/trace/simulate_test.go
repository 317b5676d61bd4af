// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/fragmentation"
)

var (
	simulatedTrace    = flag.String("folder", "", "the folder of the trace to simulate; none for a synthetic one")
	simulatedWorkload = flag.String("workload", "default", "the workload to simulate")
	simulatedSeeds    = flag.Int("seeds", 1, "how many seeds to simulate")
	simulatedWhole    = flag.Bool("whole-list", false, "know all tasks from the beginning")
)

// simulation is the protocol without sessions: the strategy scores every node, and each task is placed on the best
// one. It tests a strategy in seconds, and the results of sessions are compared with it.
type simulation struct {
	histogram *fragmentation.Histogram
	kinds     *fragmentation.TaskClasses
	nodes     []*simulatedNode
	shapes    map[task][]offer
	bestFit   bool
	refresh   int
}

type simulatedNode struct {
	node
	room  fragmentation.Room
	state *allocator.State
	// version changes with the node.
	version int
}

// offer is the best assignment of a node for a task. after is nil if there is none.
type offer struct {
	version int
	score   float64
	after   *allocator.State
}

func newSimulation(t *trace, bestFit bool) *simulation {
	s := &simulation{histogram: fragmentation.NewHistogram(), shapes: map[task][]offer{}, bestFit: bestFit}
	for _, n := range t.nodes {
		inventory := &allocator.Inventory{Model: n.model}
		for i := range n.gpus {
			inventory.Devices[allocator.GPU] = append(inventory.Devices[allocator.GPU], allocator.Device{Minor: int32(i), Healthy: true, Total: hundredths(1000)})
		}
		s.nodes = append(s.nodes, &simulatedNode{node: n, room: fragmentation.Room{MilliCPU: n.milliCPU, Memory: n.memoryMiB << 20}, state: allocator.NewState(inventory), version: 1})
	}
	return s
}

func hundredths(milliGPU int) allocator.Amounts {
	h := int64(milliGPU+9) / 10
	return allocator.Amounts{allocator.Core: h, allocator.MemoryRatio: h}
}

func kindOf(t task) fragmentation.TaskClass {
	k := fragmentation.TaskClass{MilliCPU: t.milliCPU, Memory: t.memoryMiB << 20, GPUs: int64(t.gpus)}
	share := hundredths(t.milliGPU)
	k.Core, k.GPUMemory = share[allocator.Core], share[allocator.MemoryRatio]
	if t.models != "" {
		k.Models = fragmentation.Models(strings.Split(t.models, "|")...)
	}
	return k
}

// run places the arriving tasks.
func (s *simulation) run(t *trace, list []task, wholeList bool) figures {
	if wholeList && !s.bestFit {
		for _, task := range list {
			s.histogram.Add(kindOf(task))
		}
	}
	p := &progress{total: t.size()}
	for i, task := range list {
		if i%40 == 0 { // as sessions of 40 tasks see them
			for _, waiting := range list[i:min(i+40, len(list))] {
				if !wholeList && !s.bestFit {
					s.histogram.Add(kindOf(waiting))
				}
			}
		}
		if i >= s.refresh {
			s.refresh = i + min(200, max(40, i/4))
			s.kinds = s.histogram.TaskClasses()
			clear(s.shapes)
		}
		p.note(list[i:i+1], s.place(task))
	}
	return p.end()
}

// place places the task on the best node.
func (s *simulation) place(t task) bool {
	offers := s.shapes[t]
	if offers == nil {
		offers = make([]offer, len(s.nodes))
		s.shapes[t] = offers
	}
	best := -1
	for i, n := range s.nodes {
		if offers[i].version != n.version {
			offers[i] = s.offer(n, t)
		}
		if offers[i].after != nil && (best < 0 || offers[i].score > offers[best].score) {
			best = i
		}
	}
	if best < 0 {
		return false
	}
	n := s.nodes[best]
	n.room, n.state = roomAfter(n.room, t), offers[best].after
	n.version++
	return true
}

func roomAfter(r fragmentation.Room, t task) fragmentation.Room {
	return fragmentation.Room{MilliCPU: r.MilliCPU - t.milliCPU, Memory: r.Memory - t.memoryMiB<<20}
}

func (s *simulation) offer(n *simulatedNode, t task) offer {
	none := offer{version: n.version}
	left := roomAfter(n.room, t)
	if left.MilliCPU < 0 || left.Memory < 0 || t.models != "" && !slices.Contains(strings.Split(t.models, "|"), n.model) {
		return none
	}
	strategy, amounts := s.kinds.StrategyFor(n.room, left), hundredths(t.milliGPU)
	used := &allocator.Allocation{}
	for range t.gpus {
		at, score := -1, math.Inf(-1)
		for i := range n.state.Devices[allocator.GPU] {
			taken := slices.ContainsFunc(used[allocator.GPU], func(d allocator.DeviceAllocation) bool { return d.Minor == int32(i) })
			if taken || !amounts.Within(n.state.Free(allocator.GPU, i)) {
				continue
			}
			if got := strategy.DeviceScore(n.state, allocator.GPU, i, amounts); got > score {
				at, score = i, got
			}
		}
		if at < 0 {
			return none
		}
		used[allocator.GPU] = append(used[allocator.GPU], allocator.DeviceAllocation{Minor: int32(at), Amounts: amounts})
	}
	after := n.state.With(used)
	return offer{n.version, strategy.NodeScore(n.state, after), after}
}

func TestSimulation(t *testing.T) {
	tr := synthetic(60, 1)
	if *simulatedTrace != "" {
		var err error
		if tr, err = readTrace(*simulatedTrace, *simulatedWorkload); err != nil {
			t.Fatal(err)
		}
	}
	var fragment, bestFit []figures
	for seed := range uint64(*simulatedSeeds) {
		list := tr.arrivals(seed + 1)
		fragment = append(fragment, newSimulation(tr, false).run(tr, list, *simulatedWhole))
		bestFit = append(bestFit, newSimulation(tr, true).run(tr, list, *simulatedWhole))
		t.Logf("seed %d: fragmentation %.2f, best fit %.2f", seed+1, fragment[seed], bestFit[seed])
	}
	got, other := mean(fragment), mean(bestFit)
	t.Logf("mean: fragmentation %.2f, best fit %.2f", got, other)
	if got[atFull] <= other[atFull] {
		t.Errorf("when all has arrived, the measure of fragments has allocated %.2f%% and best fit %.2f%%", got[atFull], other[atFull])
	}
}
