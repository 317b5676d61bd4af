// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

const steps = 200_000

// check says what is wrong with a plan.
func check(p *Problem, plan Plan) error {
	f := p.newFilling()
	counts := make([]int, len(p.Kinds))
	for n, taken := range plan {
		for k, count := range taken {
			for range count {
				if counts[k]++; counts[k] > p.Kinds[k].Count {
					return fmt.Errorf("more than %d tasks of kind %d", p.Kinds[k].Count, k)
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

// exhaust says whether there is room, task by task and node by node.
func exhaust(p *Problem, k, again int, f *filling) bool {
	if p.enough(f.plan) {
		return true
	}
	if k == len(p.Kinds) {
		return false
	}
	if again == p.Kinds[k].Count {
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

// takeBack undoes put.
func (f *filling) takeBack(n, k int) {
	f.slots[n]++
	for r, value := range f.Kinds[k].Request {
		f.room[n][r] += value
	}
	for _, port := range f.Kinds[k].Ports {
		delete(f.ports[n], port)
	}
	f.plan[n][k]--
}

// small draws a problem that can be exhausted.
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
		k := Kind{Request: draw(0, 6), Count: 1 + d.IntN(3), Role: d.IntN(3) - 1}
		if d.IntN(5) == 0 {
			k.Ports = []string{fmt.Sprint(d.IntN(2))}
		}
		p.Kinds = append(p.Kinds, k)
	}
	for range 1 + d.IntN(4) {
		n := Node{Room: draw(3, 12), Slots: 1 + d.IntN(6), Takes: make([]bool, len(p.Kinds))}
		for k := range n.Takes {
			n.Takes[k] = d.IntN(6) > 0
		}
		p.Nodes = append(p.Nodes, n)
	}
	p.Wanted = p.total()
	if d.IntN(2) == 0 {
		p.Wanted = 1 + d.IntN(p.total())
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
		plan, got, _ := p.Solve(steps)
		answers[got]++
		if got != want {
			t.Errorf("seed %d: answer %d, want %d: %+v", seed, got, want, p)
		}
		if err := check(p, plan); got == Fits && err != nil {
			t.Errorf("seed %d: %v: %v", seed, err, plan)
		}
		if refuted, _ := p.Refute(); refuted == Impossible && want == Fits {
			t.Errorf("seed %d: what has room is refuted: %+v", seed, p)
		}
	}
	t.Log(answers)
}

// large draws a problem with a known plan: nodes that are filled by tasks of a few shapes, and then so many hundredths more
// of them. Alike nodes are filled exactly by some of the ways there are; the others end where their tasks do.
func large(d *rand.Rand, alike bool, dimensions, slack int) *Problem {
	for {
		p := &Problem{}
		tasks, shapes := 100+d.IntN(901), 2+d.IntN(7)
		for range shapes {
			k := Kind{Role: -1}
			for range dimensions {
				k.Request = append(k.Request, float64(1+d.IntN(16)))
			}
			p.Kinds = append(p.Kinds, k)
		}
		capacity := make([]float64, dimensions)
		for r := range capacity {
			capacity[r] = 32
		}
		fill := func() ([]int, []float64) {
			taken, used := make([]int, shapes), make([]float64, dimensions)
			for {
				k := d.IntN(shapes)
				room := slices.Clone(capacity)
				for r := range room {
					room[r] -= used[r]
				}
				if !fits(p.Kinds[k].Request, room) {
					return taken, used
				}
				taken[k]++
				for r := range used {
					used[r] += p.Kinds[k].Request[r]
				}
			}
		}
		add := func(taken []int, room []float64) {
			for k, count := range taken {
				p.Kinds[k].Count += count
			}
			p.Nodes = append(p.Nodes, Node{Room: room, Slots: 110, Takes: slices.Repeat([]bool{true}, shapes)})
		}
		if alike {
			full := func(used []float64) bool { return used[0] == capacity[0] }
			tries := 0
			for p.total() < tasks && tries < 20_000 {
				if taken, used := fill(); full(used) {
					add(taken, slices.Clone(capacity))
				}
				tries++
			}
		} else {
			for p.total() < tasks {
				add(fill())
			}
		}
		if p.total() < 100 {
			continue
		}
		for range len(p.Nodes) * slack / 100 {
			p.Nodes = append(p.Nodes, p.Nodes[d.IntN(len(p.Nodes))])
		}
		p.Kinds = slices.DeleteFunc(p.Kinds, func(k Kind) bool { return k.Count == 0 })
		for n := range p.Nodes {
			p.Nodes[n].Takes = slices.Repeat([]bool{true}, len(p.Kinds))
		}
		d.Shuffle(len(p.Nodes), func(i, j int) { p.Nodes[i], p.Nodes[j] = p.Nodes[j], p.Nodes[i] })
		p.Wanted = p.total()
		return p
	}
}

func TestLargeProblemsWithAKnownPlanAreSolved(t *testing.T) {
	const draws = 30
	for _, alike := range []bool{true, false} {
		for dimensions := 1; dimensions <= 3; dimensions++ {
			for slack, allowed := range map[int]int{15: 10, 30: 1} {
				name := fmt.Sprintf("alike %t, %d resources, %d%% more nodes than needed", alike, dimensions, slack)
				t.Run(name, func(t *testing.T) {
					missed, worst := 0, 0
					for seed := range uint64(draws) {
						p := large(rand.New(rand.NewPCG(seed, 2)), alike, dimensions, slack)
						plan, answer, used := p.Solve(steps)
						worst = max(worst, used)
						switch err := check(p, plan); {
						case answer == Impossible:
							t.Fatalf("seed %d: what has room is refuted", seed)
						case answer == Unknown:
							missed++
						case err != nil:
							t.Fatalf("seed %d: %v", seed, err)
						}
					}
					t.Logf("%d of %d missed, at most %d steps", missed, draws, worst)
					if missed*100 > draws*allowed {
						t.Errorf("%d of %d missed, at most %d%% may be", missed, draws, allowed)
					}
				})
			}
		}
	}
}
