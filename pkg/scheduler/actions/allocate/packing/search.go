// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// strategy is in which order a search goes through nodes, and through what may fill one.
type strategy int

const (
	// leastWaste fills the smallest nodes first, each so that the least is left over.
	leastWaste strategy = iota
	// largestNodes is the same with the largest nodes first.
	largestNodes
	// largestTasks fills the smallest nodes first, each with the largest tasks that fit.
	largestTasks
)

// maxFills bounds how many ways to fill a node are looked at.
const maxFills = 400

// search fills node by node, depth first. What fills a node is maximal: if there is a solution, there is one in which a task
// of a later node lies here when it fits.
type search struct {
	*Problem
	strategy strategy
	steps    int
	// cut says that something was left out: steps have run out, or there were more ways to fill a node than are looked at.
	cut bool
	// nodes are in the order of the search, kinds the largest first. left is how many tasks of each kind are to be placed.
	nodes, kinds []int
	left         []int
	scale, tight []float64
	plan         Plan
	// supply, slots and copies are what the nodes from one on have together: of each resource, slots, and how many tasks of
	// each kind each of them takes.
	supply [][]float64
	slots  []int
	copies [][]int
	// failed are the states, a node and what is left, that were in vain.
	failed map[string]bool
	key    []byte
	// ascending are, by resource, the kinds that ask for the least of it first.
	ascending [][]int
}

func (p *Problem) newSearch(st strategy, steps int) *search {
	s := &search{Problem: p, strategy: st, steps: steps, scale: p.scale(), plan: make(Plan, len(p.Nodes)), failed: map[string]bool{}}
	s.tight = make([]float64, len(s.scale))
	for k := range p.Kinds {
		s.left = append(s.left, p.Kinds[k].Count)
		s.kinds = append(s.kinds, k)
		for r, value := range p.Kinds[k].Request {
			s.tight[r] += value * float64(p.Kinds[k].Count) / s.scale[r]
		}
	}
	slices.SortStableFunc(s.kinds, func(l, r int) int {
		return cmp.Compare(size(p.Kinds[r].Request, s.scale), size(p.Kinds[l].Request, s.scale))
	})
	s.orderNodes()
	s.sumUp()
	for r := range s.scale {
		order := slices.Clone(s.kinds)
		slices.SortStableFunc(order, func(l, m int) int { return cmp.Compare(p.Kinds[l].Request[r], p.Kinds[m].Request[r]) })
		s.ascending = append(s.ascending, order)
	}
	return s
}

// orderNodes orders nodes by their size in what is scarce; those that are alike follow each other.
func (s *search) orderNodes() {
	sizes, keys := make([]float64, len(s.Nodes)), make([]string, len(s.Nodes))
	for n := range s.Nodes {
		s.nodes = append(s.nodes, n)
		keys[n] = s.Nodes[n].Key()
		for r, value := range s.Nodes[n].Room {
			sizes[n] += s.tight[r] * value / s.scale[r]
		}
	}
	slices.SortStableFunc(s.nodes, func(l, r int) int {
		if s.strategy == largestNodes {
			l, r = r, l
		}
		return cmp.Or(cmp.Compare(sizes[l], sizes[r]), cmp.Compare(keys[l], keys[r]), cmp.Compare(l, r))
	})
}

func (s *search) sumUp() {
	count := len(s.nodes)
	s.supply, s.slots, s.copies = make([][]float64, count+1), make([]int, count+1), make([][]int, count+1)
	s.supply[count], s.copies[count] = make([]float64, len(s.scale)), make([]int, len(s.Kinds))
	for i := count - 1; i >= 0; i-- {
		n := s.nodes[i]
		s.supply[i], s.copies[i] = slices.Clone(s.supply[i+1]), slices.Clone(s.copies[i+1])
		some := false
		for k := range s.Kinds {
			copies := s.Problem.copies(k, n)
			s.copies[i][k] += copies
			some = some || copies > 0
		}
		s.slots[i] = s.slots[i+1]
		if some {
			s.slots[i] += min(s.Nodes[n].Slots, s.Wanted)
			for r, value := range s.Nodes[n].Room {
				s.supply[i][r] += max(value, 0)
			}
		}
	}
}

// from fills the nodes from the i-th on; so many tasks are placed.
func (s *search) from(i, placed int) bool {
	if placed >= s.Wanted && s.rolesMet() {
		return true
	}
	if i == len(s.nodes) || !s.hopeful(i, placed) {
		return false
	}
	if s.steps <= 0 {
		s.cut = true
		return false
	}
	s.key = s.key[:0]
	s.key = binary.AppendUvarint(s.key, uint64(i))
	for _, left := range s.left {
		s.key = binary.AppendUvarint(s.key, uint64(left))
	}
	key := string(s.key)
	if s.failed[key] {
		return false
	}
	for _, f := range s.fills(s.nodes[i]) {
		for k, count := range f.taken {
			s.left[k] -= count
		}
		s.plan[s.nodes[i]] = f.taken
		if s.from(i+1, placed+f.tasks) {
			return true
		}
		for k, count := range f.taken {
			s.left[k] += count
		}
	}
	s.plan[s.nodes[i]] = nil
	s.failed[key] = true
	return false
}

// result is the plan, without what was tried on nodes that are not needed.
func (s *search) result() Plan { return s.plan }

func (s *search) rolesMet() bool {
	if len(s.Roles) == 0 {
		return true
	}
	lacking := slices.Clone(s.Roles)
	for k := range s.Kinds {
		if role := s.Kinds[k].Role; role >= 0 {
			lacking[role] -= s.Kinds[k].Count - s.left[k]
		}
	}
	return !slices.ContainsFunc(lacking, func(n int) bool { return n > 0 })
}

// hopeful says whether the nodes from the i-th on may have room for what is lacking, by sums.
func (s *search) hopeful(i, placed int) bool {
	need := max(s.Wanted-placed, 0)
	can, roles := 0, slices.Clone(s.Roles)
	for k := range s.Kinds {
		takes := min(s.left[k], s.copies[i][k])
		can += takes
		if role := s.Kinds[k].Role; role >= 0 {
			roles[role] -= s.Kinds[k].Count - s.left[k] + takes
		}
	}
	if can < need || s.slots[i] < need || slices.ContainsFunc(roles, func(lacking int) bool { return lacking > 0 }) {
		return false
	}
	for r := range s.scale {
		rest, sum := need, 0.0
		for _, k := range s.ascending[r] {
			takes := min(rest, s.left[k], s.copies[i][k])
			sum += float64(takes) * s.Kinds[k].Request[r]
			rest -= takes
		}
		if sum > s.supply[i][r]+tolerance*float64(1+need) {
			return false
		}
	}
	return true
}

// fill is a way to fill a node.
type fill struct {
	taken []int
	tasks int
	waste float64
}

// fills lists ways to fill the node, the most promising first.
func (s *search) fills(n int) []fill {
	e := &enumeration{search: s, node: &s.Nodes[n], room: slices.Clone(s.Nodes[n].Room), taken: make([]int, len(s.Kinds)), ports: map[string]bool{}}
	e.from(0, min(s.Nodes[n].Slots, s.Problem.total()))
	if s.strategy != largestTasks {
		slices.SortStableFunc(e.found, func(l, r fill) int { return cmp.Compare(l.waste, r.waste) })
	}
	return e.found
}

// enumeration goes through the ways to fill a node, with the most of the largest tasks first.
type enumeration struct {
	*search
	node  *Node
	room  []float64
	taken []int
	ports map[string]bool
	tasks int
	found []fill
}

func (e *enumeration) from(i, slots int) {
	e.steps--
	if len(e.found) == maxFills || e.steps <= 0 && len(e.found) > 0 {
		e.cut = true
		return
	}
	if i == len(e.kinds) {
		if e.maximal(slots) {
			e.found = append(e.found, fill{slices.Clone(e.taken), e.tasks, e.waste()})
		}
		return
	}
	k := e.kinds[i]
	for count := e.most(k, slots); count >= 0; count-- {
		e.take(k, count)
		e.from(i+1, slots-count)
		e.take(k, -count)
		if len(e.found) == maxFills {
			return
		}
	}
}

// most is how many tasks of the kind the node takes besides those it has.
func (e *enumeration) most(k, slots int) int {
	kind := &e.Kinds[k]
	most := min(e.left[k]-e.taken[k], slots)
	if !e.node.Takes[k] || slices.ContainsFunc(kind.Ports, func(port string) bool { return e.ports[port] }) {
		return 0
	}
	if len(kind.Ports) > 0 {
		most = min(most, 1)
	}
	for r, value := range kind.Request {
		if value > 0 {
			most = min(most, int((e.room[r]+tolerance)/value))
		}
	}
	return max(most, 0)
}

// take puts so many tasks of the kind on the node, or takes them back when the count is negative.
func (e *enumeration) take(k, count int) {
	kind := &e.Kinds[k]
	e.taken[k] += count
	e.tasks += count
	for r, value := range kind.Request {
		e.room[r] -= float64(count) * value
	}
	if count != 0 {
		for _, port := range kind.Ports {
			e.ports[port] = count > 0
		}
	}
}

// maximal says whether no further task fits.
func (e *enumeration) maximal(slots int) bool {
	return !slices.ContainsFunc(e.kinds, func(k int) bool { return e.most(k, slots) > 0 })
}

// waste is how much is left over, what is scarce counting most.
func (e *enumeration) waste() (sum float64) {
	for r, value := range e.room {
		sum += e.tight[r] * max(value, 0) / e.scale[r]
	}
	return sum
}
