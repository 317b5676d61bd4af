// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// mostSteps is the limit that the action uses.
const mostSteps = 1_500_000

// check returns an error if the plan is invalid.
func check(p *Problem, plan Plan) error {
	f := p.newFilling()
	counts := make([]int, len(p.Classes))
	for n, taken := range plan {
		for k, count := range taken {
			for range count {
				if counts[k]++; counts[k] > p.Classes[k].Count {
					return fmt.Errorf("more than %d tasks of kind %d", p.Classes[k].Count, k)
				}
				if !f.takes(n, k) {
					return fmt.Errorf("node %d has no room for kind %d", n, k)
				}
				f.put(n, k)
			}
		}
	}
	if !p.enough(plan) {
		return fmt.Errorf("fewer than %d tasks, or than the roles %v", p.Wanted, p.Roles)
	}
	return nil
}

// exhaust reports whether the tasks have room, by trying each task on each node.
func exhaust(p *Problem, k, again int, f *filling) bool {
	if p.enough(f.plan) {
		return true
	}
	if k == len(p.Classes) {
		return false
	}
	if again == p.Classes[k].Count {
		return exhaust(p, k+1, 0, f)
	}
	for n := range p.Nodes {
		if !f.takes(n, k) {
			continue
		}
		f.put(n, k)
		if exhaust(p, k, again+1, f) {
			return true
		}
		f.takeBack(n, k)
	}
	return exhaust(p, k+1, 0, f)
}

// takeBack reverts put.
func (f *filling) takeBack(n, k int) {
	f.slots[n]++
	for r, value := range f.problem.Classes[k].Request {
		f.room[n][r] += value
	}
	f.plan[n][k]--
}

// small draws a problem that exhaust can solve.
func small(d *rand.Rand) *Problem {
	p := &Problem{Roles: make([]int, 2)}
	dimensions := 1 + d.IntN(3)
	draw := func(least, most int) []float64 {
		out := make([]float64, dimensions)
		for i := range out {
			out[i] = float64(least + d.IntN(most-least+1))
		}
		return out
	}
	for range 1 + d.IntN(4) {
		k := TaskClass{Request: draw(0, 6), Count: 1 + d.IntN(3), Role: d.IntN(3) - 1}
		if d.IntN(5) == 0 {
			k.Alone = true
		}
		p.Classes = append(p.Classes, k)
	}
	for range 1 + d.IntN(4) {
		n := Node{Room: draw(3, 12), Slots: 1 + d.IntN(6), Takes: make([]bool, len(p.Classes))}
		for k := range n.Takes {
			n.Takes[k] = d.IntN(6) > 0
		}
		p.Nodes = append(p.Nodes, n)
	}
	for range d.IntN(4) {
		p.Exclude(d.IntN(len(p.Classes)), d.IntN(len(p.Classes)))
	}
	p.Wanted = p.Tasks()
	if d.IntN(2) == 0 {
		p.Wanted = 1 + d.IntN(p.Tasks())
		p.Roles = []int{d.IntN(2), d.IntN(2)}
	}
	return p
}

func TestSmallProblemsAreAnsweredAsByExhaustion(t *testing.T) {
	answers := map[Answer]int{}
	for seed := range uint64(3000) {
		p := small(rand.New(rand.NewPCG(seed, 1)))
		want := Impossible
		if exhaust(p, 0, 0, p.newFilling()) {
			want = Fits
		}
		plan, got, _ := p.Solve(mostSteps)
		answers[got]++
		if got != want {
			t.Errorf("seed %d: answer %d, want %d: %+v", seed, got, want, p)
		}
		if err := check(p, plan); got == Fits && err != nil {
			t.Errorf("seed %d: %v: %v", seed, err, plan)
		}
		if refuted, _ := p.Refute(); refuted == Impossible && want == Fits {
			t.Errorf("seed %d: a solvable problem is refuted: %+v", seed, p)
		}
	}
	t.Log(answers)
}

// TestNodesThatAreFilledInTooManyWaysAreNotRefuted checks that a problem is not refuted if its nodes can be filled in
// more ways than the search tries. All of the tried ways may fail while another works.
func TestNodesThatAreFilledInTooManyWaysAreNotRefuted(t *testing.T) {
	for seed := range uint64(40) {
		dr := drawing{layout: trimmed, resources: 2, grain: 1000, parts: 4, shapes: 8, tasks: 100}
		p := dr.known(rand.New(rand.NewPCG(seed, 1)))
		if _, answer, _ := p.Solve(mostSteps); answer == Impossible {
			t.Errorf("seed %d: a solvable problem is refuted", seed)
		}
	}
}
