// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"cmp"
	"math"
	"slices"

	"github.com/volcano-prebind/volcano-prebind/internal/keybytes"
)

// TaskClass is a set of equal tasks.
type TaskClass struct {
	// Request is the request of one task, by resource.
	Request []float64
	Count   int
	// Alone reports whether no two tasks of the class may share a node, for example because they request a host port.
	Alone bool
	// Excludes reports, for each other class of the problem, whether its tasks may not share a node with tasks of this
	// class; nil if no class is excluded. Exclusion is symmetric.
	Excludes []bool
	// Role is an index in Problem.Roles; -1 for tasks without a role.
	Role int
}

// Node is the remaining capacity of a node.
type Node struct {
	Room []float64
	// Slots is how many more tasks, of any class, the node takes.
	Slots int
	// Takes reports, by class, whether the node may take tasks of the class at all.
	Takes []bool
}

// Problem is the question whether a number of tasks fits on nodes.
type Problem struct {
	Classes []TaskClass
	Nodes   []Node
	// Wanted is how many tasks must find room. Roles is how many tasks of each role must find room.
	Wanted int
	Roles  []int
}

// Plan is the number of tasks of each class on each node; nil for a node without tasks.
type Plan [][]int

// Answer says whether the nodes of a problem have room for the wanted tasks.
type Answer int

// Unknown means that the steps ran out before Solve found a plan or a proof that none exists.
const (
	Unknown Answer = iota
	Fits
	Impossible
)

// Tolerance is the amount by which a request may exceed the remaining room, because sums of floats have rounding
// errors.
const Tolerance = 0.01

// fits reports whether the request fits into the room. The room of a resource that is not requested may be negative: a node that
// has lost a device takes tasks that need none.
func fits(request, room []float64) bool {
	for r, value := range request {
		if value > 0 && value > room[r]+Tolerance {
			return false
		}
	}
	return true
}

// Without returns the same problem, except that the node does not take tasks of the class. node and class are indexes
// in the problem.
func (p *Problem) Without(node, class int) *Problem {
	out := *p
	out.Nodes = slices.Clone(p.Nodes)
	out.Nodes[node].Takes = slices.Clone(p.Nodes[node].Takes)
	out.Nodes[node].Takes[class] = false
	return &out
}

// Exclude forbids plans in which tasks of class l and of class r share a node. If both are the same class, no two of its
// tasks may share a node.
func (p *Problem) Exclude(l, r int) {
	if l == r {
		p.Classes[l].Alone = true
		return
	}
	for _, pair := range [][2]int{{l, r}, {r, l}} {
		class := &p.Classes[pair[0]]
		if class.Excludes == nil {
			class.Excludes = make([]bool, len(p.Classes))
		}
		class.Excludes[pair[1]] = true
	}
}

// Excluded reports whether a task of class k may not be placed beside the tasks on a node. taken is the number of these
// tasks, by class; nil for none.
func (p *Problem) Excluded(k int, taken []int) bool {
	class := &p.Classes[k]
	switch {
	case taken == nil:
		return false
	case class.Alone && taken[k] > 0:
		return true
	}
	for other, excluded := range class.Excludes {
		if excluded && taken[other] > 0 {
			return true
		}
	}
	return false
}

// FitsInto reports whether the room is enough for one task of the class.
func (k *TaskClass) FitsInto(room []float64) bool { return fits(k.Request, room) }

// copies returns how many tasks of class k node n takes if it takes no tasks of other classes.
func (p *Problem) copies(k, n int) int {
	class, node := &p.Classes[k], &p.Nodes[n]
	if !node.Takes[k] {
		return 0
	}
	most := class.Count
	if class.Alone {
		most = min(most, 1)
	}
	return node.copies(class.Request, most)
}

// copies returns how many tasks with the request have room on the node, and no more than the parameter most.
func (n *Node) copies(request []float64, most int) int {
	most = min(most, n.Slots)
	for r, value := range request {
		if value > 0 {
			most = min(most, int(math.Floor((n.Room[r]+Tolerance)/value)))
		}
	}
	return max(most, 0)
}

// Key returns a key that is equal for problems that differ only in the order of their nodes: such problems have the
// same solutions. Lists begin with their length, so that different problems cannot have the same key.
func (p *Problem) Key() string {
	b := keybytes.Int(keybytes.Int(nil, p.Wanted, len(p.Roles)), p.Roles...)
	b = keybytes.Int(b, len(p.Classes))
	for i := range p.Classes {
		k := &p.Classes[i]
		b = keybytes.Float(keybytes.Int(b, k.Count, k.Role, len(k.Request)), k.Request...)
		b = keybytes.Flag(keybytes.Int(keybytes.Flag(b, k.Alone), len(k.Excludes)), k.Excludes...)
	}
	nodes := make([]string, len(p.Nodes))
	for i := range p.Nodes {
		nodes[i] = p.Nodes[i].Key()
	}
	slices.Sort(nodes)
	for _, node := range nodes {
		b = append(b, node...)
	}
	return string(b)
}

// Key returns a key that is equal for equal nodes.
func (n *Node) Key() string {
	return string(keybytes.Flag(keybytes.Float(keybytes.Int(nil, n.Slots, len(n.Room)), n.Room...), n.Takes...))
}

// Tasks returns the number of tasks.
func (p *Problem) Tasks() (n int) {
	for i := range p.Classes {
		n += p.Classes[i].Count
	}
	return n
}

// counts returns the number of tasks of each class.
func (p *Problem) counts() []int {
	counts := make([]int, len(p.Classes))
	for k := range p.Classes {
		counts[k] = p.Classes[k].Count
	}
	return counts
}

// scale returns the total of each resource over all nodes, and at least 1, so that callers can divide by it.
func (p *Problem) scale() []float64 {
	sum := make([]float64, len(p.Classes[0].Request))
	for i := range p.Nodes {
		for r, value := range p.Nodes[i].Room {
			sum[r] += value
		}
	}
	for r := range sum {
		sum[r] = max(sum[r], 1)
	}
	return sum
}

// size returns the largest ratio of an amount to the total of its resource over all nodes. scale has these totals, as
// the method scale returns them.
func size(amounts, scale []float64) (part float64) {
	for r, value := range amounts {
		part = max(part, value/scale[r])
	}
	return part
}

// largestFirst returns the indexes of the classes, the classes with the largest tasks first.
func (p *Problem) largestFirst() []int {
	scale := p.scale()
	order := make([]int, len(p.Classes))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(l, r int) int {
		return cmp.Compare(size(p.Classes[r].Request, scale), size(p.Classes[l].Request, scale))
	})
	return order
}

// compareClasses orders classes by their content, so that sorted classes always have the same order.
func compareClasses(l, r *TaskClass) int {
	alone := func(k *TaskClass) int {
		if k.Alone {
			return 1
		}
		return 0
	}
	return cmp.Or(slices.Compare(l.Request, r.Request), cmp.Compare(l.Count, r.Count), cmp.Compare(alone(l), alone(r)), cmp.Compare(l.Role, r.Role))
}
