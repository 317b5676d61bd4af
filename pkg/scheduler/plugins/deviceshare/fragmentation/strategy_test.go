// SPDX-License-Identifier: Apache-2.0

package fragmentation_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/fragmentation"
)

// share returns a share of a GPU, in hundredths.
func share(hundredths int64) allocator.Amounts {
	return allocator.Amounts{allocator.Core: hundredths, allocator.MemoryRatio: hundredths}
}

// state returns the state of a node's GPUs, each with this number of free hundredths.
func state(free ...int64) *allocator.State {
	inventory, used := &allocator.Inventory{Node: "n"}, &allocator.Allocation{}
	for i, f := range free {
		inventory.Devices[allocator.GPU] = append(inventory.Devices[allocator.GPU], allocator.Device{Minor: int32(i), Healthy: true, Total: share(100)})
		used[allocator.GPU] = append(used[allocator.GPU], allocator.DeviceAllocation{Minor: int32(i), Amounts: share(100 - f)})
	}
	return allocator.NewState(inventory).With(used)
}

// withNICs adds NICs with these free hundredths to a state.
func withNICs(s *allocator.State, free ...int64) *allocator.State {
	inventory, used := *s.Inventory, &allocator.Allocation{}
	for i, f := range free {
		inventory.Devices[allocator.RDMA] = append(inventory.Devices[allocator.RDMA], allocator.Device{Minor: int32(i), Healthy: true, Total: allocator.Amounts{allocator.RDMAShare: 100}})
		used[allocator.RDMA] = append(used[allocator.RDMA], allocator.DeviceAllocation{Minor: int32(i), Amounts: allocator.Amounts{allocator.RDMAShare: 100 - f}})
	}
	for i := range s.Devices[allocator.GPU] {
		used[allocator.GPU] = append(used[allocator.GPU], allocator.DeviceAllocation{Minor: int32(i), Amounts: s.Used(allocator.GPU, i)})
	}
	return allocator.NewState(&inventory).With(used)
}

// taking returns the state after this share of the GPU was allocated.
func taking(s *allocator.State, gpu int, hundredths int64) *allocator.State {
	return s.With(&allocator.Allocation{allocator.GPU: {{Minor: int32(gpu), Amounts: share(hundredths)}}})
}

// best returns the index of the device for which the amounts have the best score.
func best(classes *fragmentation.TaskClasses, on *allocator.State, room fragmentation.Room, t allocator.Type, amounts allocator.Amounts) int {
	strategy, at, top := classes.StrategyFor(room, room), -1, math.Inf(-1)
	for i := range on.Devices[t] {
		if !amounts.Within(on.Free(t, i)) {
			continue
		}
		if score := strategy.DeviceScore(on, t, i, amounts); score > top {
			at, top = i, score
		}
	}
	return at
}

var plenty = fragmentation.Room{MilliCPU: 64_000, Memory: 256 * gib}

func TestTheGPUForAShare(t *testing.T) {
	third := fragmentation.TaskClass{MilliCPU: 1000, GPUs: 1, Core: 30, GPUMemory: 30}
	cases := map[string]struct {
		classes *fragmentation.TaskClasses
		free    []int64
		share   int64
		want    int
	}{
		"the tightest while no task class is known":    {seen(), []int64{100, 60, 70}, 50, 1},
		"the one that leaves none":                     {seen(half), []int64{100, 60, 50}, 50, 2},
		"the scrap that the task classes cannot use":   {seen(half), []int64{100, 60, 40}, 30, 2},
		"the rest serves a task class, though more":    {seen(third), []int64{100, 60, 70}, 40, 2},
		"a GPU in use, to keep whole ones for the two": {seen(pair, half), []int64{100, 100, 90}, 40, 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := best(tc.classes, state(tc.free...), plenty, allocator.GPU, share(tc.share)); got != tc.want {
				t.Errorf("with %v free on the GPUs, the best GPU for %d hundredths is %d, want %d", tc.free, tc.share, got, tc.want)
			}
		})
	}
}

func TestTheNICForAShareIsTheOneThatKeepsTasksWithNICsPossible(t *testing.T) {
	whole := fragmentation.TaskClass{MilliCPU: 1000, GPUs: 1, Core: 100, GPUMemory: 100, NICs: 2, NICShare: 50}
	quarter := allocator.Amounts{allocator.RDMAShare: 25}
	on := withNICs(state(100, 100), 60, 100, 80)
	if got := best(seen(whole), on, plenty, allocator.RDMA, quarter); got != 0 {
		t.Errorf("the best NIC for a quarter is %d, want 0, because NICs 1 and 2 then still serve a whole task", got)
	}
	on = withNICs(state(100, 100), 60, 100)
	if got := best(seen(whole), on, plenty, allocator.RDMA, quarter); got != 1 {
		t.Errorf("the best NIC for a quarter is %d, want 1, because both NICs then still serve a whole task", got)
	}
}

func TestTheNodeForATask(t *testing.T) {
	type node struct {
		gpus     []int64
		milliCPU int64
	}
	whole := fragmentation.TaskClass{MilliCPU: 8000, GPUs: 1, Core: 100, GPUMemory: 100}
	cases := map[string]struct {
		classes *fragmentation.TaskClasses
		// gpu and hundredths are the GPU and the share that the task takes. A task without GPUs takes only milliCPU.
		gpu, hundredths int64
		milliCPU        int64
		better, worse   node
	}{
		"the fuller one while no task class is known":        {seen(), 0, 50, 1000, node{[]int64{50, 0}, 32_000}, node{[]int64{100, 100}, 32_000}},
		"the one with less CPU while no task class is known": {seen(), 0, 50, 1000, node{[]int64{100}, 8000}, node{[]int64{100}, 64_000}},
		"the one without GPUs for a task without":            {seen(whole), 0, 0, 4000, node{nil, 16_000}, node{[]int64{100, 100}, 16_000}},
		"the one with CPU to spare for a task without":       {seen(whole), 0, 0, 8000, node{[]int64{100}, 64_000}, node{[]int64{100}, 8000}},
		"the one that has CPU for fewer of its GPUs":         {seen(whole), 0, 100, 1000, node{[]int64{100, 100}, 9000}, node{[]int64{100, 100}, 64_000}},
		"the one whose rest serves no task class":            {seen(whole), 0, 30, 1000, node{[]int64{60, 100}, 64_000}, node{[]int64{100, 100}, 64_000}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			score := func(n node) float64 {
				before := state(n.gpus...)
				after := before
				if tc.hundredths > 0 {
					after = taking(before, int(tc.gpu), tc.hundredths)
				}
				return tc.classes.StrategyFor(fragmentation.Room{MilliCPU: n.milliCPU}, fragmentation.Room{MilliCPU: n.milliCPU - tc.milliCPU}).NodeScore(before, after)
			}
			if better, worse := score(tc.better), score(tc.worse); better <= worse {
				t.Errorf("%+v scores %.4f and %+v scores %.4f, want more for the first", tc.better, better, tc.worse, worse)
			}
		})
	}
}

func TestTaskForAnyModelAvoidsRareModels(t *testing.T) {
	h := fragmentation.NewHistogram()
	add(h, fragmentation.TaskClass{GPUs: 1, Core: 100, GPUMemory: 100}, 80)
	add(h, fragmentation.TaskClass{GPUs: 1, Core: 100, GPUMemory: 100, Models: "rare"}, 10)
	add(h, fragmentation.TaskClass{GPUs: 1, Core: 100, GPUMemory: 100, Models: "common"}, 10)
	add(h, fragmentation.TaskClass{GPUs: 1, Core: 100, GPUMemory: 100, Models: "nowhere"}, 1000)
	score := func(classes *fragmentation.TaskClasses, model string) float64 {
		before := state(100, 100)
		before.Model = model
		return classes.StrategyFor(plenty, plenty).NodeScore(before, taking(before, 0, 100))
	}
	h.SetSupply(fragmentation.Supply{"rare": 10, "common": 90})
	classes := h.TaskClasses()
	if rare, common := score(classes, "rare"), score(classes, "common"); common <= rare {
		t.Errorf("a node of the rare model scores %.3f and one of the common model %.3f, want more for the common model", rare, common)
	}
	h.SetSupply(fragmentation.Supply{"rare": 50, "common": 50})
	classes = h.TaskClasses()
	if rare, common := score(classes, "rare"), score(classes, "common"); rare != common {
		t.Errorf("nodes of two models with equal supply and demand score %.3f and %.3f, want equal scores", rare, common)
	}
}

func TestNodeScores(t *testing.T) {
	one := fragmentation.TaskClass{GPUs: 1, Core: 100, GPUMemory: 100}
	room := fragmentation.Room{}
	cases := map[string]struct {
		before, after *allocator.State
		want          float64
	}{
		"nothing grows":             {state(100, 0), state(100, 0), 50},
		"half a GPU becomes scrap":  {state(100), state(50), 50 - 50*0.5/1.5},
		"half a GPU of scrap is up": {state(50), state(0), 50 + 50*0.5/1.5},
		"no devices":                {nil, nil, 50},
		"no GPUs":                   {state(), state(), 50},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := seen(one).StrategyFor(room, room).NodeScore(tc.before, tc.after); math.Abs(got-tc.want) > 0.1 || tc.after == nil && got != tc.want {
				t.Errorf("the score is %.3f, want %.3f", got, tc.want)
			}
		})
	}
}

func TestNodeScoresAreBetween0And100AndFallAsTheFragmentGrows(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 7))
	for range 500 {
		classes := seen(randomClass(rng), randomClass(rng), half)
		before := state(rng.Int64N(101), rng.Int64N(101), rng.Int64N(101))
		room := fragmentation.Room{MilliCPU: rng.Int64N(64_000), Memory: rng.Int64N(64 * gib)}
		after := taking(before, rng.IntN(3), rng.Int64N(101))
		less := fragmentation.Room{MilliCPU: room.MilliCPU / 2, Memory: room.Memory / 2}
		score, poorer := classes.StrategyFor(room, room).NodeScore(before, after), classes.StrategyFor(room, less).NodeScore(before, after)
		if score < 0 || score > 100 || poorer < 0 || poorer > 100 {
			t.Fatalf("scores %.3f and %.3f are not between 0 and 100", score, poorer)
		}
		if grown := fragmentOf(classes, after, less) - fragmentOf(classes, after, room); grown > 0.01 && poorer >= score {
			t.Fatalf("the fragment grows by %.4f GPUs more, but the score changes from %.4f to %.4f", grown, score, poorer)
		}
	}
}

// fragmentOf computes the fragment of a state's GPUs, to compare it with the strategy's scores.
func fragmentOf(classes *fragmentation.TaskClasses, s *allocator.State, room fragmentation.Room) float64 {
	n := fragmentation.Node{MilliCPU: room.MilliCPU, Memory: room.Memory}
	for i := range s.Devices[allocator.GPU] {
		free := s.Free(allocator.GPU, i)
		n.GPUs = append(n.GPUs, fragmentation.GPU{Core: free[allocator.Core], Memory: free[allocator.MemoryRatio]})
	}
	return classes.Fragment(&n)
}

func BenchmarkNodeScore(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	h := fragmentation.NewHistogram()
	for range 10_000 {
		h.Add(randomClass(rng))
	}
	before := state(100, 100, 50, 20, 100, 0, 70, 100)
	after := taking(before, 0, 40)
	strategy := h.TaskClasses().StrategyFor(plenty, plenty)
	b.ReportAllocs()
	for b.Loop() {
		strategy.NodeScore(before, after)
	}
}

// TestSharesOfFPGAsArePacked checks that shares of FPGAs are packed like those of NICs, so that whole FPGAs stay free.
func TestSharesOfFPGAsArePacked(t *testing.T) {
	amount := func(hundredths int64) allocator.Amounts { return allocator.Amounts{allocator.FPGAShare: hundredths} }
	inventory, used := &allocator.Inventory{Node: "n"}, &allocator.Allocation{}
	for i, free := range []int64{100, 75, 50} {
		inventory.Devices[allocator.FPGA] = append(inventory.Devices[allocator.FPGA], allocator.Device{Minor: int32(i), Healthy: true, Total: amount(100)})
		used[allocator.FPGA] = append(used[allocator.FPGA], allocator.DeviceAllocation{Minor: int32(i), Amounts: amount(100 - free)})
	}
	on := allocator.NewState(inventory).With(used)
	for hundredths, want := range map[int64]int{25: 2, 60: 1, 100: 0} {
		if got := best(fragmentation.NewHistogram().TaskClasses(), on, fragmentation.Room{}, allocator.FPGA, amount(hundredths)); got != want {
			t.Errorf("%d hundredths go to FPGA %d, want %d", hundredths, got, want)
		}
	}
}
