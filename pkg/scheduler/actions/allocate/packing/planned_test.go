// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/volcano-prebind/volcano-prebind/internal/rounds"
)

var plannedRounds = rounds.Flag("packing.planned", 1_500, 60_000, "the number of random problems of many classes with a known plan")

// request draws the request of a class for up to three resources: small numbers, or cpu, memory and gpus of which most tasks
// request much of one and little of the others.
func request(d *rand.Rand, resources int, mixed bool) []float64 {
	out := make([]float64, resources)
	if !mixed {
		for r := range out {
			out[r] = float64(d.IntN(3) * d.IntN(40))
		}
		return out
	}
	much := d.IntN(resources + 1) // of no resource, if it is the number of resources
	for r, unit := range []float64{1000, 1 << 30, 1000}[:resources] {
		switch {
		case r == 2 && r != much && d.IntN(3) > 0: // no gpu
		case r == much:
			out[r] = unit * float64(1+d.IntN(8))
		default:
			out[r] = unit / 4
		}
		if r < 2 {
			out[r] += float64(d.IntN(3))
		}
	}
	return out
}

// planned draws a problem of many classes with a known plan. The rooms of most nodes are exactly the sums of the plan's
// tasks there.
func planned(d *rand.Rand) *Problem {
	resources, classes, roles := 1+d.IntN(3), 9+d.IntN(30), d.IntN(3)
	mixed, tasksOfNode := d.IntN(2) == 0, 2+d.IntN(7)
	p := &Problem{Roles: make([]int, roles)}
	for range classes {
		k := TaskClass{Request: request(d, resources, mixed), Role: -1, Alone: d.IntN(4) == 0}
		if roles > 0 && d.IntN(2) == 0 {
			k.Role = d.IntN(roles)
		}
		p.Classes = append(p.Classes, k)
	}
	if d.IntN(3) == 0 {
		for range d.IntN(6) {
			p.Exclude(d.IntN(classes), d.IntN(classes))
		}
	}
	for range 1 + d.IntN(8) {
		p.addPlanned(d, tasksOfNode)
	}
	if d.IntN(2) == 0 { // more tasks than are wanted
		for range d.IntN(5) {
			p.Classes[d.IntN(classes)].Count += d.IntN(4)
		}
		p.Wanted -= min(p.Wanted, d.IntN(3))
		for r := range p.Roles {
			p.Roles[r] = max(p.Roles[r]-d.IntN(2), 0)
		}
	}
	return p
}

// addPlanned adds a node and fewer new tasks than the parameter most, which have room on the node. It adds these tasks to
// the wanted ones.
func (p *Problem) addPlanned(d *rand.Rand, most int) {
	resources := len(p.Classes[0].Request)
	n := Node{Room: make([]float64, resources), Takes: make([]bool, len(p.Classes))}
	taken := make([]int, len(p.Classes))
	for range d.IntN(most) {
		k := d.IntN(len(p.Classes))
		if p.Excluded(k, taken) {
			continue
		}
		taken[k]++
		n.Takes[k] = true
		n.Slots++
		for r, value := range p.Classes[k].Request {
			n.Room[r] += value
		}
	}
	for k, count := range taken {
		p.Classes[k].Count += count
		p.Wanted += count
		if role := p.Classes[k].Role; role >= 0 {
			p.Roles[role] += count
		}
		n.Takes[k] = n.Takes[k] || d.IntN(4) == 0
	}
	switch r := d.IntN(resources); {
	case d.IntN(5) == 0:
		n.Room[r] += float64(d.IntN(10))
	case d.IntN(5) == 0 && n.Room[r] == 0: // the node has lost more of a resource than its tasks leave
		n.Room[r] = -5
	}
	p.Nodes = append(p.Nodes, n)
}

// onNodesOf returns problem p on the nodes of another problem. As at the caller of Merged, a node takes the classes that have
// room on it.
func (p *Problem) onNodesOf(other *Problem) *Problem {
	for _, n := range other.Nodes {
		n.Takes = make([]bool, len(p.Classes))
		for k := range p.Classes {
			n.Takes[k] = p.Classes[k].FitsInto(n.Room)
		}
		p.Nodes = append(p.Nodes, n)
	}
	return p
}

// TestPlannedTasksAreNeverRefuted: no proof applies to problems of many classes that have a plan, even if classes are
// merged.
func TestPlannedTasksAreNeverRefuted(t *testing.T) {
	d := rand.New(rand.NewPCG(3, 4))
	for round := range plannedRounds.Of(t) {
		p := planned(d)
		if answer, _ := p.Refute(); answer == Impossible {
			t.Fatalf("round %d: a problem with a plan is refuted: %+v", round, p)
		}
		merged := p.Merged(1+d.IntN(len(p.Classes)-1), slices.Repeat([]float64{1000}, 3)).onNodesOf(p)
		if answer, _ := merged.Refute(); answer == Impossible {
			t.Fatalf("round %d: a problem with a plan is refuted with merged classes: %+v of %+v", round, merged, p)
		}
		if _, answer, _ := p.Solve(5_000); answer == Impossible {
			t.Fatalf("round %d: Solve says that a problem with a plan has none: %+v", round, p)
		}
	}
}
