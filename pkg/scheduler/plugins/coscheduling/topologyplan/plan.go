// SPDX-License-Identifier: Apache-2.0

package topologyplan

import (
	"cmp"
	"iter"
	"slices"
)

// Share is the number of members that a plan places on a node.
type Share struct {
	Node    string
	Members int
}

// Plans yields plans for some members (their number is the parameter now), the best plan first. Each plan is in a domain
// that has room for the number of members in the parameter wanted. Consecutive nodes of a plan are close to each other in the network.
func (t *DomainTree) Plans(wanted, now int) iter.Seq[[]Share] {
	return func(yield func([]Share) bool) {
		if now < 1 || wanted < now || wanted > t.most {
			return
		}
		for level := len(t.layers) - 1; level >= t.mustLevel(); level-- {
			for _, d := range t.candidates(level, wanted) {
				if !t.holds(d, now) {
					continue
				}
				var shares []Share
				t.divide(d, now, func(node *domain, n int) { shares = append(shares, Share{node.name, n}) })
				if !yield(shares) {
					return
				}
			}
		}
	}
}

// Most returns the largest number of members, between least and most, for which a plan exists; 0 if no plan exists.
func (t *DomainTree) Most(least, most int) int {
	for n := min(most, t.most); n >= max(least, 1); n-- {
		if t.planExists(n) {
			return n
		}
	}
	return 0
}

// Least returns the smallest number of members, between least and most, for which a plan exists; 0 if no plan exists.
func (t *DomainTree) Least(least, most int) int {
	for n := max(least, 1); n <= min(most, t.most); n++ {
		if t.planExists(n) {
			return n
		}
	}
	return 0
}

// planExists reports whether a plan exists for n members.
func (t *DomainTree) planExists(n int) bool {
	return slices.ContainsFunc(t.levels[t.mustLevel()], func(d *domain) bool { return t.holds(d, n) })
}

// holds reports whether n members may be added to the domain if no members are added to other domains.
func (t *DomainTree) holds(d *domain, n int) bool {
	if !d.takes.has(n) || t.requiredDomain != nil && d.at(t.requiredDomain.level) != t.requiredDomain {
		return false
	}
	for around := d.parent; around != nil; around = around.parent {
		if k := t.layers[around.level].Multiple; k > 1 && (around.members+n)%k != 0 {
			return false
		}
	}
	return true
}

// candidates returns the domains of the level that can take the wanted members, the best first. Equally good domains
// are sorted by path: by their names, preceded by the names of the wider domains around them.
func (t *DomainTree) candidates(level, wanted int) []*domain {
	var out []*domain
	spread := map[*domain]int{}
	for _, d := range t.levels[level] {
		if t.holds(d, wanted) {
			out = append(out, d)
		}
	}
	if len(out) > 1 {
		for _, d := range out {
			spread[d] = t.spread(d, wanted)
		}
	}
	slices.SortStableFunc(out, func(l, r *domain) int {
		return cmp.Or(
			upwards(r, l, func(d *domain) int { return d.members }),
			upwards(r, l, func(d *domain) int { return d.affinityCount }),
			cmp.Compare(spread[l], spread[r]),
			upwards(l, r, func(d *domain) int { return d.slots }),
		)
	})
	return out
}

// upwards compares the values of(l) and of(r) of two domains of the same level. If the values are equal, it compares
// the next wider domains around the two domains.
func upwards(l, r *domain, of func(*domain) int) int {
	for ; l != nil && l != r; l, r = l.parent, r.parent {
		if order := cmp.Compare(of(l), of(r)); order != 0 {
			return order
		}
	}
	return 0
}

// spread returns how many domains inside d the wanted members would use, in the layers where the gang prefers few
// domains.
func (t *DomainTree) spread(d *domain, wanted int) int {
	var levels []int
	for i, layer := range t.layers {
		if layer.Prefer && i > d.level {
			levels = append(levels, i)
		}
	}
	if len(levels) == 0 {
		return 0
	}
	used := map[*domain]bool{}
	t.divide(d, wanted, func(node *domain, _ int) {
		for _, level := range levels {
			used[node.at(level)] = true
		}
	})
	return len(used)
}

// divide divides n members over the nodes of the domain, and calls give for each node that gets members. n must be a
// number that the domain can take.
func (t *DomainTree) divide(d *domain, n int, give func(node *domain, n int)) {
	if n == 0 {
		return
	}
	if d.level == len(t.layers)-1 {
		give(d, n)
		return
	}
	rests := t.rests(d)
	for i, child := range d.children {
		part := child.takes.below(n)
		for i < len(rests) && !(child.takes.has(part) && rests[i].has(n-part)) {
			part--
		}
		t.divide(child, part, give)
		if n -= part; n == 0 {
			return
		}
	}
}

// rests returns a set for each child domain whose field takes is irregular (not just the multiples of a number): how many
// members all later children can take together. Children with irregular sets come first. Any other child needs no such
// result, because it simply takes as many members as it can.
func (t *DomainTree) rests(d *domain) []counts {
	irregular := 0
	for irregular < len(d.children) && d.children[irregular].takes.irregular != nil {
		irregular++
	}
	rests := make([]counts, irregular)
	rest := t.sumOf(d.children[irregular:])
	for i := range slices.Backward(rests) {
		rests[i] = rest
		rest = d.children[i].takes.plus(rest, t.most)
	}
	return rests
}
