// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"math/rand/v2"
	"slices"
)

// layout describes the nodes of a problem with a known plan, and the resources that the plan leaves free.
type layout string

const (
	// alike: All nodes are of one class, and the plan uses up at least one resource of each.
	alike layout = "alike"
	// mixed: The nodes are of two or three classes, and the plan uses up at least one resource of each.
	mixed layout = "mixed"
	// used: Other tasks use a different part of each node, except of the one resource that the plan uses up.
	used layout = "used"
	// trimmed: The nodes differ, and the plan uses up all resources.
	trimmed layout = "trimmed"
)

var layouts = []layout{alike, mixed, used, trimmed}

// drawing has the parameters of random problems with a known plan.
type drawing struct {
	layout           layout
	resources, slack int
	// grain is the number of units of a node. A task requests at most 1/parts of a node.
	grain, parts int
	// gpus makes the last resource a number of GPUs: a node has 8, and a task requests 0, 1, 2 or 4.
	gpus bool
	// barred excludes some classes from some of the nodes.
	barred bool
	// surplus adds tasks that are not needed, and gives every task one of two roles with a minimum.
	surplus bool
	// shapes and tasks are the numbers of task classes and of tasks.
	shapes, tasks int
}

// draw chooses all other parameters at random.
func draw(d *rand.Rand, of layout, slack int) drawing {
	dr := drawing{
		layout: of, resources: 1 + d.IntN(3), slack: slack, grain: []int{16, 32, 128, 1000}[d.IntN(4)], parts: []int{2, 2, 4, 8}[d.IntN(4)],
		barred: d.IntN(2) == 0, surplus: d.IntN(4) == 0, shapes: 2 + d.IntN(7), tasks: 100 + d.IntN(850),
	}
	dr.gpus = dr.resources > 1 && d.IntN(2) == 0
	if of == alike || of == mixed {
		dr.grain = min(dr.grain, 128) // Otherwise few nodes are ever full.
	}
	return dr
}

// known draws a problem with a known plan. It fills nodes with random tasks until there are enough tasks, and then
// adds slack percent more of such nodes.
func (dr drawing) known(d *rand.Rand) *Problem {
	for tries := 0; ; tries++ {
		if tries%20 == 19 { // The task classes are too few, or do not divide the nodes.
			dr.shapes = 2 + d.IntN(7)
			dr.resources = max(1, dr.resources-1)
			dr.gpus = false
		}
		b := &builder{Rand: d, drawing: dr}
		if p := b.build(); p != nil {
			return p
		}
	}
}

type builder struct {
	*rand.Rand
	drawing
	p          *Problem
	capacities [][]float64
	barredFrom []bool
}

func (b *builder) build() *Problem {
	b.p = &Problem{}
	for range b.shapes {
		b.p.Classes = append(b.p.Classes, TaskClass{Role: -1, Request: b.request()})
		b.barredFrom = append(b.barredFrom, b.barred && b.IntN(3) == 0)
	}
	b.capacities = [][]float64{slices.Repeat([]float64{float64(b.grain)}, b.resources)}
	if b.gpus {
		b.capacities[0][b.resources-1] = 8
	}
	for b.layout == mixed && len(b.capacities) < 2+b.shapes%2 {
		capacity := b.amounts(b.grain/2, b.grain*3/2)
		if b.gpus {
			capacity[b.resources-1] = float64(8 * b.IntN(2))
		}
		b.capacities = append(b.capacities, capacity)
	}
	for tries := 0; b.p.Tasks() < b.tasks; tries++ {
		if tries > 20_000 {
			return nil
		}
		b.addNode()
	}
	for n := range len(b.p.Nodes) * b.slack / 100 {
		b.p.Nodes = append(b.p.Nodes, b.p.Nodes[(n*7919)%len(b.p.Nodes)])
	}
	b.Shuffle(len(b.p.Nodes), func(i, j int) { b.p.Nodes[i], b.p.Nodes[j] = b.p.Nodes[j], b.p.Nodes[i] })
	b.p.Wanted = b.p.Tasks()
	if slices.ContainsFunc(b.p.Classes, func(k TaskClass) bool { return k.Count == 0 }) {
		return nil
	}
	if b.surplus {
		b.addSurplus()
	}
	return b.p
}

// addSurplus adds up to a third more tasks. The minimum of each role is at most the number in the plan.
func (b *builder) addSurplus() {
	b.p.Roles = make([]int, 2)
	for k := range b.p.Classes {
		class := &b.p.Classes[k]
		class.Role = k % 2
		b.p.Roles[class.Role] += class.Count * (1 + b.IntN(4)) / 4
		class.Count += b.IntN(1 + class.Count*2/3)
	}
}

func (b *builder) request() []float64 {
	out := b.amounts(1, b.grain/b.parts)
	if b.gpus {
		out[b.resources-1] = float64([]int{0, 1, 2, 4}[b.IntN(4)])
	}
	return out
}

func (b *builder) amounts(least, most int) []float64 {
	out := make([]float64, b.resources)
	for r := range out {
		out[r] = float64(least + b.IntN(most-least+1))
	}
	return out
}

// addNode fills a node with random tasks and adds it. It adds no node if no task fits, or if the layout does not allow
// the resources that remain.
func (b *builder) addNode() {
	n := Node{Room: slices.Clone(b.capacities[b.IntN(len(b.capacities))]), Slots: 110}
	if b.layout == used {
		for r := range n.Room {
			n.Room[r] -= float64(b.IntN(int(n.Room[r])/2 + 1))
		}
	}
	bars := b.IntN(3) == 0
	for k := range b.p.Classes {
		n.Takes = append(n.Takes, !bars || !b.barredFrom[k])
	}
	taken, left := make([]int, len(b.p.Classes)), slices.Clone(n.Room)
	for tasks := 0; ; {
		k := b.IntN(len(b.p.Classes))
		if !n.Takes[k] {
			if !slices.Contains(n.Takes, true) {
				return
			}
			continue
		}
		if tasks == n.Slots || !fits(b.p.Classes[k].Request, left) {
			break
		}
		taken[k]++
		tasks++
		for r, value := range b.p.Classes[k].Request {
			left[r] -= value
		}
	}
	if !slices.ContainsFunc(taken, func(count int) bool { return count > 0 }) {
		return
	}
	switch b.layout {
	case used:
		r := b.IntN(b.resources)
		n.Room[r] -= left[r]
	case trimmed:
		for r := range left {
			n.Room[r] -= left[r]
		}
	default:
		if !slices.Contains(left, 0) {
			return
		}
	}
	for k, count := range taken {
		b.p.Classes[k].Count += count
	}
	b.p.Nodes = append(b.p.Nodes, n)
}
