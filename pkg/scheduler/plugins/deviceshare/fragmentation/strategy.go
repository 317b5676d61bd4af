// SPDX-License-Identifier: Apache-2.0

package fragmentation

import (
	"math"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
)

// Penalties for free resources that a placement leaves on a node, so that fuller nodes are preferred (best fit). They
// decide only among placements with equal growth of the fragment, and while no class of tasks is known. A free core
// counts like growth by 0.0001 GPUs, which is small compared with the growth by any task. A free GPU counts like ten
// free cores, because nodes have about ten cores for each GPU.
const (
	tiePerCore = 0.0001
	tiePerGPU  = 0.001
)

// Strategy scores placements of a task on a node. The less the node's fragment (the GPUs that future tasks cannot use)
// grows, the higher the score.
type Strategy struct {
	classes       *TaskClasses
	before, after Room
}

var _ allocator.Strategy = (*Strategy)(nil)

// Room holds the free resources of a node other than devices.
type Room struct {
	MilliCPU int64
	// Memory is in bytes.
	Memory int64
}

// StrategyFor returns the strategy for placing a task on a node. before and after are the node's free resources before and after
// the placement.
func (k *TaskClasses) StrategyFor(before, after Room) *Strategy { return &Strategy{k, before, after} }

// NodeScore returns a score from 0 to 100 for a placement, from the states of the node's devices before and after it.
// The score is about 50 if the fragment does not grow, 25 if it grows by one GPU, and 75 if it shrinks by one GPU. A
// node without GPUs gets exactly 50, so that other plugins decide among such nodes; its state may be nil.
func (s *Strategy) NodeScore(before, after *allocator.State) float64 {
	if after == nil || len(after.Devices[allocator.GPU]) == 0 {
		return 50
	}
	grown := s.fragment(after, s.after, nothing) - s.fragment(before, s.before, nothing)
	grown += tiePerCore*float64(s.after.MilliCPU)/1000 + tiePerGPU*free(after)
	return 50 - 50*grown/(1+math.Abs(grown))
}

// DeviceScore returns the score of taking the amounts from the device at that index of the inventory. The smaller the
// node's fragment afterwards, the higher the score. Among devices that lead to equal fragments, the device with the
// smallest remaining part has the highest score.
func (s *Strategy) DeviceScore(state *allocator.State, t allocator.Type, index int, amounts allocator.Amounts) float64 {
	left := state.Free(t, index).Sub(amounts)
	return -s.fragment(state, s.after, use{t, index, amounts}) - tiePerGPU*gpusOf(gpuOf(left, state.Devices[t][index].Total).size()+2*(left[allocator.RDMAShare]+left[allocator.FPGAShare]))
}

// use holds the amounts that a task would take from one device.
type use struct {
	t       allocator.Type
	index   int
	amounts allocator.Amounts
}

var nothing = use{index: -1}

// free returns the sum of the free parts of the node's GPUs, as a number of GPUs.
func free(state *allocator.State) float64 {
	var size int64
	if state != nil {
		for i := range state.Devices[allocator.GPU] {
			size += gpuOf(state.Free(allocator.GPU, i), state.Devices[allocator.GPU][i].Total).size()
		}
	}
	return gpusOf(size)
}

// fragment returns the fragment of a node after a task takes the amounts in the parameter of. state has the node's
// devices, and room its other free resources.
func (s *Strategy) fragment(state *allocator.State, room Room, of use) float64 {
	if state == nil {
		return 0
	}
	// Arrays on the stack suffice for nodes with up to 16 devices of each type.
	var gpus, nics = [16]GPU{}, [16]int64{}
	n := Node{MilliCPU: room.MilliCPU, Memory: room.Memory, GPUs: gpus[:0], NICs: nics[:0], Model: state.Model}
	for i := range state.Devices[allocator.GPU] {
		left := state.Free(allocator.GPU, i)
		if of.t == allocator.GPU && of.index == i {
			left = left.Sub(of.amounts)
		}
		n.GPUs = append(n.GPUs, gpuOf(left, state.Devices[allocator.GPU][i].Total))
	}
	for i := range state.Devices[allocator.RDMA] {
		left := state.Free(allocator.RDMA, i)
		if of.t == allocator.RDMA && of.index == i {
			left = left.Sub(of.amounts)
		}
		n.NICs = append(n.NICs, left[allocator.RDMAShare])
	}
	return s.classes.Fragment(&n)
}

// gpuOf returns the remaining part of a GPU with the given total amounts. For devices whose total has no cores in
// hundredths, such as NPUs, the ratio of memory stands for both values.
func gpuOf(left, total allocator.Amounts) GPU {
	g := GPU{max(left[allocator.Core], 0), max(left[allocator.MemoryRatio], 0)}
	if total[allocator.Core] == 0 {
		g.Core = g.Memory
	}
	return g
}
