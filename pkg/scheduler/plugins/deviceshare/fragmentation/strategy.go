// SPDX-License-Identifier: Apache-2.0

package fragmentation

import (
	"math"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
)

// Best fit decides among placements with equal growth of the fragment, and while no class is known: the less a placement
// leaves free on the node, the better. For that a free core counts like growth by 0.0001 GPUs, which is small compared with
// the growth by any task. A free GPU counts like ten cores, about as many as nodes have for each GPU.
const (
	tiePerCore = 0.0001
	tiePerGPU  = 0.001
)

// Strategy scores placements of a task on a node: the less the node's fragment grows, the better.
type Strategy struct {
	classes       *TaskClasses
	before, after Room
}

var _ allocator.Strategy = (*Strategy)(nil)

// Room is a node's free resources other than devices.
type Room struct {
	MilliCPU int64
	// Memory is in bytes.
	Memory int64
}

// On returns the strategy for a node that has this room before and after the placement of the task.
func (k *TaskClasses) On(before, after Room) *Strategy { return &Strategy{k, before, after} }

// NodeScore scores a placement by the states of the node's devices before and after it, from 0 to 100: 50 if the
// fragment does not grow, 25 if it grows by a GPU, 75 if it shrinks by one. A node without GPUs, whose state may be
// nil, gets exactly 50, so that other plugins decide among such nodes.
func (s *Strategy) NodeScore(before, after *allocator.State) float64 {
	if after == nil || len(after.Devices[allocator.GPU]) == 0 {
		return 50
	}
	grown := s.fragment(after, s.after, nothing) - s.fragment(before, s.before, nothing)
	grown += tiePerCore*float64(s.after.MilliCPU)/1000 + tiePerGPU*free(after)
	return 50 - 50*grown/(1+math.Abs(grown))
}

// DeviceScore returns the score of taking the amounts from the device at that index of the inventory. The smaller the
// fragment of the node afterwards, the higher the score. Among devices with equal fragments, a device with less left has a
// higher score.
func (s *Strategy) DeviceScore(state *allocator.State, t allocator.Type, index int, amounts allocator.Amounts) float64 {
	left := state.Free(t, index).Sub(amounts)
	return -s.fragment(state, s.after, use{t, index, amounts}) - tiePerGPU*gpusOf(gpuOf(left, state.Devices[t][index].Total).size()+2*(left[allocator.RDMAShare]+left[allocator.FPGAShare]))
}

// use is an amount taken from a device.
type use struct {
	t       allocator.Type
	index   int
	amounts allocator.Amounts
}

var nothing = use{index: -1}

// free returns the free part of the node's GPUs, in GPUs.
func free(state *allocator.State) float64 {
	var size int64
	if state != nil {
		for i := range state.Devices[allocator.GPU] {
			size += gpuOf(state.Free(allocator.GPU, i), state.Devices[allocator.GPU][i].Total).size()
		}
	}
	return gpusOf(size)
}

// fragment returns the fragment of a node with these devices and this room, after the amounts in of are taken.
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

// gpuOf returns the remaining part of a GPU with the given total. For devices without a total of cores in hundredths, such
// as NPUs, it uses the memory for both values.
func gpuOf(left, total allocator.Amounts) GPU {
	g := GPU{max(left[allocator.Core], 0), max(left[allocator.MemoryRatio], 0)}
	if total[allocator.Core] == 0 {
		g.Core = g.Memory
	}
	return g
}
