// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"cmp"
	"slices"
)

// plan is a choice of devices of one type. If it is the first of joint types, the plan also has devices of the others,
// the secondary types.
type plan struct {
	ok    bool
	scope Scope
	// value rates the choice, and includes the mask of the chosen devices.
	value value
	// secondaries has, for each secondary type (joint type after the first), a mask of the chosen devices.
	secondaries [numTypes]uint64
}

// better reports whether plan p is better than plan q, which uses another part of the node. The plan with the narrower
// scope is better. With equal scopes, the plan with the better value is better.
func (p *plan) better(q *plan) bool {
	if p.scope != q.scope {
		return p.scope < q.scope
	}
	return p.value.compare(q.value) > 0
}

// value rates a choice of devices of one type.
type value struct {
	// remote is a sum over the chosen devices: for each device, the number of secondary types (joint types after the
	// first) that have no candidate on its PCIe root.
	remote int
	// first equals the field score if the score is more important than the field loss (for shares with Options.ScoreFirst
	// or limit.spread); otherwise it is 0.
	first float64
	// loss is the cost of breaking up the node's free devices.
	loss  int
	score float64
	// devices has a bit for each chosen device. Of equal choices, the choice with lower minors is preferred.
	devices uint64
}

// compare returns a positive number if the choice of devices with value v is better than the choice with value w. Both
// choices have the same number of devices.
func (v value) compare(w value) int {
	differ := v.devices ^ w.devices
	lowest := differ & -differ
	return cmp.Or(cmp.Compare(w.remote, v.remote), cmp.Compare(v.first, w.first), cmp.Compare(w.loss, v.loss), cmp.Compare(v.score, w.score),
		cmp.Compare(v.devices&lowest, w.devices&lowest))
}

// plus returns the value of two choices of devices together. The choices have no device in common.
func (v value) plus(w value) value {
	return value{v.remote + w.remote, v.first + w.first, v.loss + w.loss, v.score + w.score, v.devices | w.devices}
}

// group holds the candidates of one device type on one PCIe root, or in the group of devices that replaces the root. It
// has only candidates in the part of the node that the search currently tries.
type group struct {
	number, numa int
	of           []candidate
	// secondaries has, for each secondary type (joint type after the first), the number of candidates on the group's root.
	// lacks is the number of secondary types that have no candidate there.
	secondaries [numTypes]int
	lacks       int
}

// placeByTopology tries the parts of the node, the narrowest scope first, and returns the best plan in the first scope
// that has a plan. In each scope it first requires, on every used PCIe root, candidates of all secondary types (joint
// types after the first). If no such plan exists, it tries again without this requirement, unless the pod requires the
// same PCIe roots.
func (x *search) placeByTopology(t Type, secondaries []Type) (plan, failure) {
	count := len(x.candidates[t])
	if !x.q.r.of[t].all {
		count = x.q.r.of[t].count
	}
	narrowest, widest := ScopePCIe, x.q.widest(t)
	if count == 1 {
		// A single device is in one part of every scope, so only the widest scope is tried.
		narrowest, widest = ScopeNode, ScopeNode
	} else if x.q.spreads(t) {
		narrowest = widest
	} else if scope, exact := x.q.limit.scopeOf(t); exact {
		narrowest = max(narrowest, scope)
	}
	x.countFree(t)
	for _, secondary := range secondaries {
		x.countOnRoots(secondary)
	}
	for scope := narrowest; scope <= widest; scope++ {
		best := x.chooseInAny(t, secondaries, count, scope, true)
		if !best.ok && len(secondaries) > 0 && !x.q.r.samePCIe {
			best = x.chooseInAny(t, secondaries, count, scope, false)
		}
		if best.ok {
			return best, failure{}
		}
	}
	if len(secondaries) > 0 && x.q.r.samePCIe {
		return plan{}, failure{notJoint, t}
	}
	return plan{}, failure{notInScope, t}
}

// chooseInAny returns the best plan whose devices of type t are all in one part of the node of the given scope. If
// strict, the PCIe roots of these devices must have the candidates of the secondary types (the other joint types) that
// the pod needs.
func (x *search) chooseInAny(t Type, secondaries []Type, count int, scope Scope, strict bool) (best plan) {
	x.inPart = resize(x.inPart, x.q.parts(t, scope), 0)
	for c := range x.candidates[t] {
		if part := x.q.partOf(t, x.candidates[t][c].index, scope); part >= 0 {
			x.inPart[part]++
		}
	}
	for part, have := range x.inPart {
		if have < count {
			continue
		}
		if p := x.choose(t, secondaries, count, scope, part, strict); p.ok && (!best.ok || p.better(&best)) {
			best = p
		}
	}
	return best
}

// widest returns the widest scope that is allowed by both the request and the limit of a plan for several pods.
func (q *problem) widest(t Type) Scope {
	widest := ScopeNode
	if scope := q.r.of[t].scope; scope > 0 {
		widest = scope
	}
	if scope, _ := q.limit.scopeOf(t); scope > 0 {
		widest = min(widest, scope)
	}
	return widest
}

// countFree counts the devices of the type that no pod uses: on each NUMA node, and on each PCIe root. In joint
// allocation, a group of devices may replace their PCIe roots (Inventory.root).
func (x *search) countFree(t Type) {
	x.sack.freeGroup, x.sack.freeNUMA = resize(x.sack.freeGroup, x.q.s.roots, 0), resize(x.sack.freeNUMA, x.q.s.numaNodes, 0)
	joint := x.isPrimary(t)
	for i := range x.q.devices(t) {
		d := &x.q.s.Devices[t][i]
		if !d.Healthy || x.q.s.isUsed(t, i) {
			continue
		}
		number := d.PCIe
		if joint {
			number = x.q.s.root(d)
		}
		if number >= 0 {
			x.sack.freeGroup[number]++
		}
		if d.NUMA >= 0 {
			x.sack.freeNUMA[d.NUMA]++
		}
	}
}

// choose returns the best plan in one part of the node. If strict, every PCIe root that the plan uses must have
// candidates of each secondary type (joint type after the first). These roots together must have as many of these
// candidates as requested. If not strict, such roots are preferred, and candidates on other roots complete the number.
func (x *search) choose(t Type, secondaries []Type, count int, scope Scope, part int, strict bool) plan {
	have := x.makeGroups(t, secondaries, scope, part, strict)
	if have < count {
		return plan{}
	}
	want := table{devices: count}
	for n, secondary := range secondaries {
		if strict {
			want.joint[n] = x.needed(secondary)
		}
	}
	p := plan{scope: scope}
	p.value, p.ok = x.sack.pickNumbers(t, secondaries, have, want)
	if !p.ok {
		return p
	}
	x.sack.groups = slices.DeleteFunc(x.sack.groups, func(g group) bool {
		return !slices.ContainsFunc(g.of, func(c candidate) bool { return p.value.devices&(1<<c.index) != 0 })
	})
	for _, secondary := range secondaries {
		if p.secondaries[secondary], p.ok = x.followPrimary(secondary); !p.ok {
			return p
		}
	}
	return p
}

// needed returns how many candidates of the secondary type must be on the PCIe roots of the devices of the first joint
// type. They are counted over all of these roots. It returns 0 if one candidate on each root suffices.
func (x *search) needed(secondary Type) int {
	n := x.q.r.of[secondary].count
	if x.q.r.of[secondary].all {
		n = len(x.candidates[secondary])
	}
	if n <= 1 {
		return 0
	}
	return n
}

// makeGroups divides the candidate devices of type t into groups of one PCIe root and NUMA node. It returns the number
// of candidates in these groups. If scope is narrower than the node, only devices in the given part of the node count.
// If strict, groups without a candidate of each secondary type (the other joint types) on their root are left out, and
// not counted.
func (x *search) makeGroups(t Type, secondaries []Type, scope Scope, part int, strict bool) (have int) {
	x.sack.groups = x.sack.groups[:0]
	for from := 0; from < len(x.candidates[t]); {
		first := &x.candidates[t][from]
		g := group{number: first.group, numa: first.numa}
		to := from
		for to < len(x.candidates[t]) && x.candidates[t][to].group == g.number && x.candidates[t][to].numa == g.numa {
			to++
		}
		g.of = x.candidates[t][from:to]
		from = to
		if scope < ScopeNode {
			g.of = x.within(t, g.of, scope, part)
		}
		for _, secondary := range secondaries {
			if g.number >= 0 {
				g.secondaries[secondary] = x.onRoot[secondary][g.number]
			}
			if g.secondaries[secondary] == 0 {
				g.lacks++
			}
		}
		if len(g.of) == 0 || strict && g.lacks > 0 {
			continue
		}
		x.sack.groups = append(x.sack.groups, g)
		have += len(g.of)
	}
	return have
}

// within returns the candidates of one group that are in the given part of the node. All candidates of a group on one
// PCIe root are in the same part. In a group that replaces PCIe roots in joint allocation, they may be in different
// parts.
func (x *search) within(t Type, of []candidate, scope Scope, part int) []candidate {
	in := 0
	for _, c := range of {
		if x.q.partOf(t, c.index, scope) == part {
			in++
		}
	}
	switch in {
	case 0:
		return nil
	case len(of):
		return of
	}
	some := make([]candidate, 0, in)
	for _, c := range of {
		if x.q.partOf(t, c.index, scope) == part {
			some = append(some, c)
		}
	}
	return some
}

// countOnRoots counts the candidates of a secondary type (joint type after the first) on each PCIe root.
func (x *search) countOnRoots(secondary Type) {
	x.onRoot[secondary] = resize(x.onRoot[secondary], x.q.s.roots, 0)
	for c := range x.candidates[secondary] {
		if number := x.candidates[secondary][c].group; number >= 0 {
			x.onRoot[secondary][number]++
		}
	}
}

// followPrimary chooses devices of type t, a joint type after the primary (first) one. It takes one device on each PCIe
// root of the primary's devices, round by round, and then the remaining devices anywhere on the node. It returns false
// if type t has too few candidates.
func (x *search) followPrimary(t Type) (devices uint64, ok bool) {
	want := &x.q.r.of[t]
	roots := 0
	for g := range x.sack.groups {
		if x.sack.groups[g].secondaries[t] > 0 {
			roots++
		}
	}
	n := max(want.count, roots)
	if want.all {
		n = len(x.candidates[t])
	}
	if n > len(x.candidates[t]) {
		return 0, false
	}
	if n < len(x.candidates[t]) {
		x.scoreCandidates(t)
		x.inRounds(x.candidates[t], func(number int) bool {
			return slices.ContainsFunc(x.sack.groups, func(g group) bool { return g.number == number && number >= 0 })
		})
	}
	for _, c := range x.candidates[t][:n] {
		devices |= 1 << c.index
	}
	return devices, true
}

// inRounds sorts candidates into rounds. In each round, each preferred PCIe root provides its best remaining candidate.
// Within a round, the candidate with the best score comes first, then the candidate with the lowest minor. Candidates
// of other roots come after all rounds, in the same order.
func (x *search) inRounds(of []candidate, preferred func(number int) bool) {
	slices.SortFunc(of, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.index, b.index))
	})
	x.rounds = resize(x.rounds, maxDevices, len(of))
	for c := range of {
		if !preferred(of[c].group) {
			continue
		}
		round := 0
		for before := range of[:c] {
			if of[before].group == of[c].group {
				round++
			}
		}
		x.rounds[of[c].index] = round
	}
	slices.SortStableFunc(of, func(a, b candidate) int { return cmp.Compare(x.rounds[a.index], x.rounds[b.index]) })
}
