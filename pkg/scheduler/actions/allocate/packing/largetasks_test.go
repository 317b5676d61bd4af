// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"slices"
	"testing"
)

// problemOf returns a problem whose tasks are all of different classes, with these requests, and all wanted. Each node takes
// all tasks.
func problemOf(requests, nodes [][]float64) *Problem {
	p := &Problem{Wanted: len(requests)}
	for _, request := range requests {
		p.Classes = append(p.Classes, TaskClass{Request: request, Count: 1, Role: -1})
	}
	takes := slices.Repeat([]bool{true}, len(requests))
	for _, room := range nodes {
		p.Nodes = append(p.Nodes, Node{Room: room, Slots: 110, Takes: takes})
	}
	return p
}

// mixedRequests returns n requests. It takes them from the functions in turn, and passes each the number of the request.
func mixedRequests(n int, of ...func(i float64) []float64) (out [][]float64) {
	for i := range n {
		out = append(out, of[i%len(of)](float64(i)))
	}
	return out
}

// TestOneLargeTaskTooManyIsRefuted: no two large tasks have room on one node, and there is one large task more than nodes. The
// tasks are all of different sizes. One task fewer is not refuted.
func TestOneLargeTaskTooManyIsRefuted(t *testing.T) {
	cpu := func(base float64) func(float64) []float64 {
		return func(i float64) []float64 { return []float64{base + i, 1 << 30} }
	}
	memory := func(base float64) func(float64) []float64 {
		return func(i float64) []float64 { return []float64{100, base*(1<<30) + i} }
	}
	tests := map[string]struct {
		large []func(i float64) []float64
		// others are further tasks, which have room beside the large ones.
		others [][]float64
	}{
		"one size":                 {large: []func(float64) []float64{cpu(20_000)}},
		"two sizes":                {large: []func(float64) []float64{cpu(17_000), cpu(28_000)}},
		"large requests of memory": {large: []func(float64) []float64{memory(129), memory(220)}},
		"beside small tasks": {
			large:  []func(float64) []float64{cpu(17_000), cpu(28_000)},
			others: [][]float64{{1, 1 << 10}, {20, 1 << 10}, {400, 1 << 10}, {8000, 1 << 10}},
		},
		"large requests of cpu, beside large requests of memory": {
			large:  []func(float64) []float64{cpu(17_000), cpu(28_000)},
			others: mixedRequests(20, memory(130)),
		},
		"large requests of memory, beside large requests of cpu": {
			large:  []func(float64) []float64{memory(129), memory(220)},
			others: mixedRequests(20, cpu(17_000)),
		},
	}
	for name, tt := range tests {
		for _, nodes := range []int{59, 299, 999} {
			t.Run(name, func(t *testing.T) {
				room := slices.Repeat([][]float64{{32_000, 256 << 30}}, nodes)
				p := problemOf(slices.Concat(tt.others, mixedRequests(nodes+1, tt.large...)), room)
				if answer, _ := p.Refute(); answer != Impossible {
					t.Errorf("%d nodes: answer %d, want %d", nodes, answer, Impossible)
				}
				p = problemOf(slices.Concat(tt.others, mixedRequests(nodes, tt.large...)), room)
				if answer, _ := p.Refute(); answer == Impossible {
					t.Errorf("%d nodes: tasks that have room are refuted", nodes)
				}
			})
		}
	}
}

// TestLargeTasksAreCountedInEachOrder: each problem has one large task too many, and one order of the classes, or one part of
// the count, is needed to prove that.
func TestLargeTasksAreCountedInEachOrder(t *testing.T) {
	const nodes = 60
	constant := func(request ...float64) func(float64) []float64 {
		return func(i float64) []float64 {
			out := slices.Clone(request)
			for r := range out {
				out[r] += i / 1000
			}
			return out
		}
	}
	half := [][]float64{{32, 100}, {100, 32}}
	tests := map[string]struct {
		requests [][]float64
		rooms    [][]float64
		change   func(p *Problem)
	}{
		"by size": {
			// On either kind of node, one of the resources has room for only one task. In the order by each resource, a
			// task that requests little of the other resource comes between the large ones.
			requests: append(mixedRequests(nodes+1, constant(20, 17), constant(17, 20)), []float64{19, 1}, []float64{1, 19}),
			rooms:    half,
		},
		// Tasks that are larger, or request more or less of another resource, come between the large ones in other orders.
		"by cpu": {
			requests: append(mixedRequests(nodes+1, constant(17, 2)), []float64{1, 60}, []float64{1, 0}),
			rooms:    [][]float64{{32, 64}},
		},
		"by memory": {
			requests: append(mixedRequests(nodes+1, constant(2, 17)), []float64{60, 1}, []float64{0, 1}),
			rooms:    [][]float64{{64, 32}},
		},
		"by gpu, and the largest of these": {
			// Every other node has gpus. The tasks that request no gpu go to the other nodes.
			requests: slices.Concat(mixedRequests(20, func(float64) []float64 { return []float64{1, 2, 1} }),
				mixedRequests(nodes/2+1, func(i float64) []float64 { return []float64{17 + i/1000, 1, 1} }),
				mixedRequests(20, constant(20, 1, 0))),
			rooms: [][]float64{{32, 64, 8}, {1000, 64, 0}},
		},
		"nodes that take no large task": {
			requests: append(mixedRequests(nodes, constant(17, 1)), []float64{1, 1}),
			rooms:    [][]float64{{32, 64}},
			change: func(p *Problem) {
				p.Nodes[7].Takes = slices.Repeat([]bool{false}, nodes+1)
				p.Nodes[7].Takes[nodes] = true
			},
		},
		"a node that takes no task": {
			requests: mixedRequests(nodes, constant(17, 1)),
			rooms:    [][]float64{{32, 64}},
			change:   func(p *Problem) { p.Nodes[7].Takes = make([]bool, nodes) },
		},
		"a node without slots": {
			requests: mixedRequests(nodes, constant(17, 1)),
			rooms:    [][]float64{{32, 64}},
			change:   func(p *Problem) { p.Nodes[7].Slots = 0 },
		},
		"a surplus of one": {
			requests: mixedRequests(nodes+2, constant(17, 1)),
			rooms:    [][]float64{{32, 64}},
			change:   func(p *Problem) { p.Wanted-- },
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var rooms [][]float64
			for n := range nodes {
				rooms = append(rooms, tt.rooms[n%len(tt.rooms)])
			}
			p := problemOf(tt.requests, rooms)
			if tt.change != nil {
				tt.change(p)
			}
			if !p.tooManyLarge() {
				t.Error("the problem is not refuted")
			}
			p.Wanted--
			if p.tooManyLarge() {
				t.Error("with one task less, the problem is refuted")
			}
		})
	}
}
