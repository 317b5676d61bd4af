// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"cmp"
	"slices"

	"github.com/volcano-prebind/volcano-prebind/internal/keybytes"
)

// strategy is the order in which a search fills nodes, and tries the ways to fill a node.
type strategy int

const (
	// leastWaste fills the smallest nodes first. It fills each node so that the least room remains.
	leastWaste strategy = iota
	// largestNodes is like leastWaste, but fills the largest nodes first.
	largestNodes
	// largestTasks fills the smallest nodes first, each with the largest tasks that fit.
	largestTasks
)

const (
	// maxFills bounds how many ways to fill a node are tried. maxLooks bounds the steps spent on finding these ways.
	maxFills = 400
	maxLooks = 4_000
)

// search fills node by node, depth first. It fills each node until no remaining task fits. No solution is missed by
// that: a task that a solution has on a later node can be moved to an earlier node where it fits.
type search struct {
	problem  *Problem
	strategy strategy
	steps    int
	// looks bounds the steps spent on finding the ways to fill one node.
	looks int
	// cut reports whether the search is incomplete: steps have run out, or a node has more ways to fill it than are tried.
	cut bool
	// nodes are the indexes of the nodes, in the order in which they are filled. classes are the indexes of the classes, the
	// largest tasks first. left is how many tasks of each class are to be placed.
	nodes, classes []int
	left           []int
	scale, tight   []float64
	plan           Plan
	// rest are, for each position in nodes, the totals of the nodes from this position on.
	rest []totals
	// failed are the states (a node and the remaining tasks) that have no solution.
	failed map[string]bool
	key    []byte
	// ascending has, for each resource, the classes sorted by their request for the resource, the smallest first.
	ascending [][]int
}

// totals are sums over nodes: their room by resource, their slots, and how many tasks of each class they take.
type totals struct {
	supply []float64
	slots  int
	copies []int
}

func (p *Problem) newSearch(st strategy, steps int) *search {
	s := &search{problem: p, strategy: st, steps: steps, looks: maxLooks, scale: p.scale(), plan: make(Plan, len(p.Nodes)), failed: map[string]bool{}}
	s.tight = make([]float64, len(s.scale))
	for k := range p.Classes {
		s.left = append(s.left, p.Classes[k].Count)
		for r, value := range p.Classes[k].Request {
			s.tight[r] += value * float64(p.Classes[k].Count) / s.scale[r]
		}
	}
	s.classes = p.largestFirst()
	s.orderNodes()
	s.sumUp()
	for r := range s.scale {
		order := slices.Clone(s.classes)
		slices.SortStableFunc(order, func(l, m int) int { return cmp.Compare(p.Classes[l].Request[r], p.Classes[m].Request[r]) })
		s.ascending = append(s.ascending, order)
	}
	return s
}

// orderNodes orders nodes by their amount of scarce resources, the smallest first, or the largest first with strategy
// largestNodes. Equal nodes are adjacent.
func (s *search) orderNodes() {
	sizes, keys := make([]float64, len(s.problem.Nodes)), make([]string, len(s.problem.Nodes))
	for n := range s.problem.Nodes {
		s.nodes = append(s.nodes, n)
		keys[n] = s.problem.Nodes[n].Key()
		for r, value := range s.problem.Nodes[n].Room {
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
	s.rest = make([]totals, len(s.nodes)+1)
	s.rest[len(s.nodes)] = totals{supply: make([]float64, len(s.scale)), copies: make([]int, len(s.problem.Classes))}
	for i, n := range slices.Backward(s.nodes) {
		rest := totals{slices.Clone(s.rest[i+1].supply), s.rest[i+1].slots, slices.Clone(s.rest[i+1].copies)}
		some := false
		for k := range s.problem.Classes {
			copies := s.problem.copies(k, n)
			rest.copies[k] += copies
			some = some || copies > 0
		}
		if some {
			rest.slots += min(s.problem.Nodes[n].Slots, s.problem.Wanted)
			for r, value := range s.problem.Nodes[n].Room {
				rest.supply[r] += max(value, 0)
			}
		}
		s.rest[i] = rest
	}
}

// The method from fills the nodes from the i-th on, and reports whether the plan is complete. placed is the number of
// tasks on the nodes before the i-th.
func (s *search) from(i, placed int) bool {
	if placed >= s.problem.Wanted && s.rolesMet() {
		return true
	}
	if i == len(s.nodes) || !s.mayFitFrom(i, placed) {
		return false
	}
	if s.steps <= 0 {
		s.cut = true
		return false
	}
	s.key = keybytes.Int(keybytes.Int(s.key[:0], i), s.left...)
	key := string(s.key)
	if s.failed[key] {
		return false
	}
	for _, f := range s.fills(i) {
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

func (s *search) rolesMet() bool {
	if len(s.problem.Roles) == 0 {
		return true
	}
	lacking := slices.Clone(s.problem.Roles)
	for k := range s.problem.Classes {
		if role := s.problem.Classes[k].Role; role >= 0 {
			lacking[role] -= s.problem.Classes[k].Count - s.left[k]
		}
	}
	return !slices.ContainsFunc(lacking, func(n int) bool { return n > 0 })
}

// mayFitFrom reports whether the total room of the nodes from the i-th on may suffice for the wanted tasks that are not
// on earlier nodes.
func (s *search) mayFitFrom(i, placed int) bool {
	need := max(s.problem.Wanted-placed, 0)
	rest, can, roles := &s.rest[i], 0, slices.Clone(s.problem.Roles)
	for k := range s.problem.Classes {
		takes := min(s.left[k], rest.copies[k])
		can += takes
		if role := s.problem.Classes[k].Role; role >= 0 {
			roles[role] -= s.problem.Classes[k].Count - s.left[k] + takes
		}
	}
	if can < need || rest.slots < need || slices.ContainsFunc(roles, func(lacking int) bool { return lacking > 0 }) {
		return false
	}
	for r := range s.scale {
		missing, sum := need, 0.0
		for _, k := range s.ascending[r] {
			takes := min(missing, s.left[k], rest.copies[k])
			sum += float64(takes) * s.problem.Classes[k].Request[r]
			missing -= takes
		}
		if sum > rest.supply[r]+Tolerance*float64(1+need) {
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

// fills returns ways to fill the i-th node of the search, in the order in which they are tried.
func (s *search) fills(i int) []fill { return s.fillsIn(&enumeration{}, i) }

// fillsIn is like fills, but uses the memory of e again: it invalidates the ways that an earlier call with e returned.
func (s *search) fillsIn(e *enumeration, i int) []fill {
	*e = enumeration{search: s, node: s.problem.newLoading(&s.problem.Nodes[s.nodes[i]], s.left), looks: min(s.steps, s.looks),
		found: e.found[:0], counts: e.counts[:0]}
	if s.problem.Wanted == s.problem.Tasks() && s.rest[i].slots > s.rest[i+1].slots {
		e.spare = s.spare(i)
	}
	e.from(0)
	s.steps -= min(s.steps, s.looks) - e.looks
	if s.strategy != largestTasks {
		slices.SortStableFunc(e.found, func(l, r fill) int { return cmp.Compare(l.waste, r.waste) })
	}
	return e.found
}

// spare returns how much more of each resource the nodes from the i-th on have in total than all remaining tasks request.
func (s *search) spare(i int) []float64 {
	spare := slices.Clone(s.rest[i].supply)
	for k, left := range s.left {
		for r, value := range s.problem.Classes[k].Request {
			spare[r] -= float64(left) * value
		}
	}
	return spare
}

// enumeration enumerates the ways to fill a node. It begins with the way that has the most of the largest tasks.
type enumeration struct {
	search *search
	node   loading
	// spare is how much of each resource may remain unused on the node; nil for any amount.
	spare []float64
	found []fill
	// counts has the numbers of tasks of all found ways, one after the other (fill.taken).
	counts []int
	looks  int
}

func (e *enumeration) from(i int) {
	e.looks--
	if e.looks <= 0 {
		e.search.cut = true
		return
	}
	if i == len(e.search.classes) {
		if e.tolerable() && e.maximal() {
			e.note()
		}
		return
	}
	k := e.search.classes[i]
	most, least := e.node.most(k), 0
	if i == len(e.search.classes)-1 {
		least = most // with fewer tasks of the last class, one more task of that class would fit, but the node must be full
	}
	for count := most; count >= least; count-- {
		e.node.place(k, count)
		e.from(i + 1)
		e.node.place(k, -count)
		if len(e.found) == maxFills {
			e.search.cut = true
			return
		}
	}
}

// note adds the present way to fill the node to those found.
func (e *enumeration) note() {
	tasks, first := 0, len(e.counts)
	for _, count := range e.node.taken {
		tasks += count
	}
	e.counts = append(e.counts, e.node.taken...)
	e.found = append(e.found, fill{e.counts[first:len(e.counts):len(e.counts)], tasks, e.waste()})
}

// maximal reports whether no further task fits on the node.
func (e *enumeration) maximal() bool {
	return !slices.ContainsFunc(e.search.classes, func(k int) bool { return e.node.most(k) > 0 })
}

// tolerable reports whether, with this filling of the node, the later nodes have enough room in total for the remaining
// tasks.
func (e *enumeration) tolerable() bool {
	for r, spare := range e.spare {
		if e.node.room[r] > spare+Tolerance*float64(1+e.search.problem.Wanted) {
			return false
		}
	}
	return true
}

// waste returns the node's unused resources as one number. A resource counts the more, the larger the part of it that
// the problem's tasks request.
func (e *enumeration) waste() (sum float64) {
	for r, value := range e.node.room {
		sum += e.search.tight[r] * max(value, 0) / e.search.scale[r]
	}
	return sum
}
