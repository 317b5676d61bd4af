// SPDX-License-Identifier: Apache-2.0

package random

import (
	"math/bits"
	"slices"
	"testing"
)

// amounts are CPU, memory, GPUs, pods, and two host ports. A node has each host port once.
type amounts [6]int

// unlimited is more pods than any instance has.
const unlimited = 1000

func (a amounts) minus(b amounts) amounts {
	for i := range a {
		a[i] -= b[i]
	}
	return a
}

func (a amounts) plus(b amounts) amounts {
	for i := range a {
		a[i] += b[i]
	}
	return a
}

func (a amounts) within(b amounts) bool {
	for i := range a {
		if a[i] > b[i] {
			return false
		}
	}
	return true
}

// packs reports whether all tasks fit the nodes together. It tries every combination, except combinations that differ
// only in the choice among equal nodes or tasks.
func packs(tasks, nodes []amounts) bool {
	tasks, nodes = slices.Clone(tasks), slices.Clone(nodes)
	// The largest tasks come first, since they leave the fewest combinations.
	slices.SortFunc(tasks, func(l, r amounts) int { return slices.Compare(r[:], l[:]) })
	return packRest(tasks, nodes, 0)
}

// packRest packs the tasks onto the nodes, starting with the given node. Earlier nodes are excluded only for a task
// that equals the task before it.
func packRest(tasks, nodes []amounts, from int) bool {
	if len(tasks) == 0 {
		return true
	}
	if !enough(tasks, nodes) {
		return false
	}
	task := tasks[0]
	for i := from; i < len(nodes); i++ {
		if !task.within(nodes[i]) || slices.Contains(nodes[from:i], nodes[i]) {
			continue
		}
		next := 0
		if len(tasks) > 1 && tasks[1] == task {
			next = i
		}
		had := nodes[i]
		nodes[i] = had.minus(task)
		found := packRest(tasks[1:], nodes, next)
		nodes[i] = had
		if found {
			return true
		}
	}
	return false
}

// packsSome reports whether this number of the tasks fits the nodes.
func packsSome(tasks, nodes []amounts, wanted int) bool {
	for chosen := range 1 << len(tasks) {
		if bits.OnesCount(uint(chosen)) != wanted {
			continue
		}
		var some []amounts
		for i, task := range tasks {
			if chosen>>i&1 == 1 {
				some = append(some, task)
			}
		}
		if packs(some, nodes) {
			return true
		}
	}
	return false
}

// enough reports whether the tasks request no more in total than the nodes have.
func enough(tasks, nodes []amounts) bool {
	var left amounts
	for _, node := range nodes {
		for i := range node {
			left[i] += node[i]
		}
	}
	for _, task := range tasks {
		left = left.minus(task)
	}
	return amounts{}.within(left)
}

func TestPacks(t *testing.T) {
	cpu := func(values ...int) (out []amounts) {
		for _, v := range values {
			out = append(out, amounts{v, 0, 0, 0})
		}
		return out
	}
	for name, test := range map[string]struct {
		tasks, nodes []amounts
		want         bool
	}{
		"nothing":                        {nil, nil, true},
		"one on one":                     {cpu(3), cpu(3), true},
		"too large":                      {cpu(4), cpu(3, 3), false},
		"too many":                       {cpu(1, 1, 1), cpu(2), false},
		"the large one needs one node":   {cpu(3, 5), cpu(4, 6), true},
		"largest first fails here":       {cpu(6, 4, 4, 3, 3), cpu(10, 10), true},
		"enough in sum only":             {cpu(3, 3), cpu(2, 2, 2), false},
		"equal tasks go back to a node":  {cpu(3, 2, 2), cpu(4, 3), true},
		"two dimensions, crosswise":      {[]amounts{{3, 1, 0, 0}, {1, 3, 0, 0}}, []amounts{{4, 1, 0, 0}, {1, 4, 0, 0}}, true},
		"two dimensions, in no way":      {[]amounts{{3, 3, 0, 0}, {1, 1, 0, 0}}, []amounts{{3, 1, 0, 0}, {1, 3, 0, 0}}, false},
		"pods are counted":               {[]amounts{{1, 0, 0, 1}, {1, 0, 0, 1}}, []amounts{{9, 0, 0, 1}}, false},
		"equal nodes, three on two left": {cpu(2, 2, 2, 1), cpu(4, 3), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := packs(test.tasks, test.nodes); got != test.want {
				t.Errorf("packs(%v on %v) = %t, want %t", test.tasks, test.nodes, got, test.want)
			}
		})
	}
}

// TestPacksIsExhaustive compares packs with plain enumeration.
func TestPacksIsExhaustive(t *testing.T) {
	var all func(tasks, nodes []amounts) bool
	all = func(tasks, nodes []amounts) bool {
		if len(tasks) == 0 {
			return true
		}
		for i := range nodes {
			if tasks[0].within(nodes[i]) {
				rest := slices.Clone(nodes)
				rest[i] = rest[i].minus(tasks[0])
				if all(tasks[1:], rest) {
					return true
				}
			}
		}
		return false
	}
	packed := 0
	for seed := range uint64(3000) {
		d := newDice(seed, 2)
		tasks, nodes := drawPacking(d, false)
		tasks = tasks[:min(6, len(tasks))]
		want := all(tasks, nodes)
		if got := packs(tasks, nodes); got != want {
			t.Fatalf("seed %d: packs(%v on %v) = %t, want %t", seed, tasks, nodes, got, want)
		}
		if want {
			packed++
		}
	}
	if packed < 300 || packed > 2700 {
		t.Errorf("%d of 3000 fit: that is no test", packed)
	}
}
