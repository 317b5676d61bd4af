// SPDX-License-Identifier: Apache-2.0

package fragmentation

import (
	"math"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
)

// Among placements with equal growth of the fragment, best fit decides: the one that leaves less free. It also decides alone while
// no kind is known. A free core then counts as 0.1 thousandth of a GPU, which is small beside the growth by any task, as in the
// published figure. A GPU counts as the ten or so cores that nodes have for each.
const (
	tiePerCore = 0.0001
	tiePerGPU  = 0.001
)

// Strategy scores placements of a task on a node: the less the node's fragment grows, the better.
type Strategy struct {
	kinds         *Kinds
	before, after Room
}

var _ allocator.Strategy = (*Strategy)(nil)

// Room is what a node has free besides devices.
type Room struct {
	MilliCPU int64
	// Memory is in bytes.
	Memory int64
}

// On returns the strategy for a node with so much room before the task comes to it, and after.
func (k *Kinds) On(before, after Room) *Strategy { return &Strategy{k, before, after} }

// NodeScore scores the placement that makes the one state of the node's devices the other. The score is between 0 and 100: 50 where the fragment does not
// grow, 25 where it grows by a GPU, 75 where it shrinks by one. It is just 50 for a node without GPUs, whose state may be nil: among these others decide.
func (s *Strategy) NodeScore(before, after *allocator.State) float64 {
	if after == nil || len(after.Devices[allocator.GPU]) == 0 {
		return 50
	}
	grown := s.fragment(after, s.after, nothing) - s.fragment(before, s.before, nothing)
	grown += tiePerCore*float64(s.after.MilliCPU)/1000 + tiePerGPU*free(after)
	return 50 - 50*grown/(1+math.Abs(grown))
}

// DeviceScore scores the device at that index of the inventory for so much of it: the less the fragment of the node would be, the better, and of equals the
// one that has less left.
func (s *Strategy) DeviceScore(state *allocator.State, t allocator.Type, index int, amounts allocator.Amounts) float64 {
	left := state.Free(t, index).Sub(amounts)
	return -s.fragment(state, s.after, use{t, index, amounts}) - tiePerGPU*gpusOf(gpuOf(left, state.Devices[t][index].Total).size()+2*(left[allocator.RDMAShare]+left[allocator.FPGAShare]))
}

// use is so much of a device.
type use struct {
	t       allocator.Type
	index   int
	amounts allocator.Amounts
}

var nothing = use{index: -1}

// free is how much of the node's GPUs is free, in GPUs.
func free(state *allocator.State) float64 {
	var size int64
	if state != nil {
		for i := range state.Devices[allocator.GPU] {
			size += gpuOf(state.Free(allocator.GPU, i), state.Devices[allocator.GPU][i].Total).size()
		}
	}
	return gpusOf(size)
}

// fragment is the node's when the use has been added to the state.
func (s *Strategy) fragment(state *allocator.State, room Room, of use) float64 {
	if state == nil {
		return 0
	}
	// On the stack, for nodes of up to so many.
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
	return s.kinds.Fragment(&n)
}

// gpuOf returns the rest of a GPU with the given total. For devices that count cores differently, such as NPUs, only memory is
// used.
func gpuOf(left, total allocator.Amounts) GPU {
	g := GPU{max(left[allocator.Core], 0), max(left[allocator.MemoryRatio], 0)}
	if total[allocator.Core] == 0 {
		g.Core = g.Memory
	}
	return g
}
