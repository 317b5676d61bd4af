// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math/rand/v2"
)

// The synthetic trace has the shape of a cluster that grew over years, with figures of our own. Most GPUs are in
// nodes of eight with little CPU per GPU. Many nodes have two GPUs and spare CPU, and a few are old. Most tasks
// request one GPU or a part of one, in a few common sizes. Some request no GPU, and a few request several.

// nodeShape and taskShape have a relative frequency.
type nodeShape struct {
	often int
	node
}

type taskShape struct {
	often int
	task
}

const gi = 1024 // MiB

var nodeShapes = []nodeShape{
	{45, node{96_000, 384 * gi, 8, "A"}},
	{30, node{112_000, 512 * gi, 2, "B"}},
	{10, node{16_000, 128 * gi, 2, "C"}},
	{5, node{128_000, 768 * gi, 8, "D"}},
	{5, node{32_000, 128 * gi, 4, "E"}},
	{5, node{8000, 32 * gi, 1, "E"}},
}

var taskShapes = []taskShape{
	{20, task{12_000, 48 * gi, 1, 1000, ""}},
	{12, task{4000, 16 * gi, 1, 1000, ""}},
	{8, task{10_000, 40 * gi, 1, 1000, ""}},
	{6, task{16_000, 64 * gi, 1, 1000, ""}},
	{12, task{3000, 8 * gi, 1, 800, ""}},
	{9, task{8000, 32 * gi, 1, 500, ""}},
	{6, task{12_000, 32 * gi, 1, 650, ""}},
	{5, task{4000, 16 * gi, 1, 300, ""}},
	{4, task{4000, 8 * gi, 1, 200, ""}},
	{2, task{2000, 8 * gi, 1, 100, "A|D"}},
	{1, task{88_000, 320 * gi, 8, 1000, ""}},
	{1, task{24_000, 96 * gi, 2, 1000, "A|D"}},
	{6, task{12_000, 24 * gi, 0, 0, ""}},
	{5, task{8000, 16 * gi, 0, 0, ""}},
	{3, task{32_000, 64 * gi, 0, 0, ""}},
}

// synthetic returns a trace with this number of nodes, and tasks that request about all of their GPUs. Equal seeds
// return equal traces.
func synthetic(nodes int, seed uint64) *trace {
	rng := rand.New(rand.NewPCG(seed, 42))
	t := &trace{name: fmt.Sprintf("a synthetic trace (seed %d)", seed)}
	for range nodes {
		t.nodes = append(t.nodes, draw(rng, nodeShapes, func(s nodeShape) int { return s.often }).node)
	}
	for asked := 0; asked < t.size(); {
		drawn := draw(rng, taskShapes, func(s taskShape) int { return s.often }).task
		asked += drawn.size()
		t.tasks = append(t.tasks, drawn)
	}
	return t
}

// draw returns a random element of the list, weighted by often.
func draw[T any](rng *rand.Rand, list []T, often func(T) int) T {
	sum := 0
	for _, item := range list {
		sum += often(item)
	}
	at := rng.IntN(sum)
	for _, item := range list {
		if at -= often(item); at < 0 {
			return item
		}
	}
	panic("what is drawn lies within the sum")
}
