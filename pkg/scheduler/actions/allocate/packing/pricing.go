// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"cmp"
	"math"
	"slices"
)

// maxPricing bounds the search for the largest worth of a node, in looks at a kind.
const maxPricing = 3_000

// pricing finds the tasks that fill a node with the largest total price: an integer knapsack problem with several resources,
// solved by branch and bound. The bound is the one of any single resource if tasks could be divided.
type pricing struct {
	loading
	prices []float64
	// order lists the kinds that have a price, in descending order of price per requested resource.
	order []int
	// yield is the highest price per unit of each resource, among the kinds from each place of the order on; infinite
	// if one of them requests none of the resource.
	yield [][]float64
	value float64
	best  []int
	steps int
	cut   bool
}

// dearest returns the tasks that fill the node with the largest worth, that worth, and an upper bound of the worth,
// which is larger if the search was cut short.
func (p *Problem) dearest(node *Node, prices []float64, steps *int) (taken []int, value, bound float64) {
	v := &pricing{loading: p.newLoading(node, p.counts()), prices: prices, best: make([]int, len(p.Kinds)), steps: maxPricing}
	size := func(k int) (sum float64) {
		for r, value := range p.Kinds[k].Request {
			sum += value / max(node.Room[r], 1)
		}
		return sum
	}
	for k := range p.Kinds {
		if prices[k] > 0 && v.most(k) > 0 {
			v.order = append(v.order, k)
		}
	}
	slices.SortStableFunc(v.order, func(l, r int) int { return cmp.Compare(prices[r]*size(l), prices[l]*size(r)) })
	v.yield = make([][]float64, len(v.order)+1)
	v.yield[len(v.order)] = make([]float64, len(node.Room))
	for i, k := range slices.Backward(v.order) {
		v.yield[i] = slices.Clone(v.yield[i+1])
		for r, value := range p.Kinds[k].Request {
			if value > 0 {
				v.yield[i][r] = max(v.yield[i][r], prices[k]/value)
			} else {
				v.yield[i][r] = math.Inf(1)
			}
		}
	}
	v.from(0, 0)
	*steps -= maxPricing - v.steps
	if bound = v.value; v.cut {
		bound = v.atMost(0)
	}
	return v.best, v.value, bound
}

func (v *pricing) from(i int, value float64) {
	if value > v.value {
		v.value = value
		copy(v.best, v.taken)
	}
	if i == len(v.order) || value+v.atMost(i) <= v.value*(1+1e-9) {
		return
	}
	if v.steps--; v.steps <= 0 {
		v.cut = true
		return
	}
	k := v.order[i]
	for count := v.most(k); count >= 0; count-- {
		v.place(k, count)
		v.from(i+1, value+float64(count)*v.prices[k])
		v.place(k, -count)
	}
}

// atMost bounds the worth of the kinds from the i-th of the order on, in the remaining room.
func (v *pricing) atMost(i int) float64 {
	bound := math.Inf(1)
	for r, yield := range v.yield[i] {
		if !math.IsInf(yield, 1) {
			bound = min(bound, yield*(v.room[r]+Tolerance))
		}
	}
	if math.IsInf(bound, 1) {
		bound = 0
		for _, k := range v.order[i:] {
			bound += v.prices[k] * float64(v.most(k))
		}
	}
	return bound
}
