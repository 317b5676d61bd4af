// SPDX-License-Identifier: Apache-2.0

package allocator

// How many devices to take of each group is a knapsack: groups are added one by one, and of all ways to have taken a number of devices on roots with a number of
// secondaries the best is kept. NUMA nodes are added up in the same way, each with a table of its own, because by how much one is broken up depends on all that is
// taken of it.

// amount is a number of devices, and of each secondary on their roots as far as it is needed.
type amount struct {
	devices int
	joint   [numTypes - 1]int
}

// option is what may be taken of a group, or of a NUMA node.
type option struct {
	amount
	value value
}

// cell is the best way to have taken an amount.
type cell struct {
	option
	ok bool
}

// table is the amount that is asked for, which gives all tables of a choice their shape.
type table amount

func (t table) size() int { return (t.devices + 1) * (t.joint[0] + 1) * (t.joint[1] + 1) }

func (t table) at(a amount) int {
	return (a.devices*(t.joint[0]+1)+a.joint[0])*(t.joint[1]+1) + a.joint[1]
}

// plus is capped at what is needed of secondaries; false if there are more devices than are asked for.
func (t table) plus(a, b amount) (amount, bool) {
	a.devices += b.devices
	for n := range a.joint {
		a.joint[n] = min(a.joint[n]+b.joint[n], t.joint[n])
	}
	return a, a.devices <= t.devices
}

// maxPairs bounds how many pairs of cells are compared when a NUMA node is added. Where more would have to be, what breaks up NUMA nodes does not count.
const maxPairs = 1 << 18

// pickNumbers returns the best that can be taken of the groups, so that the amount is reached; false if it cannot be.
func (x *search) pickNumbers(t Type, secondaries []Type, have int, want table) (value, bool) {
	switch {
	case have == want.devices:
		return x.pickAll(t, secondaries, want)
	case len(x.groups) == 1:
		x.groups[0].of = x.groups[0].of[:want.devices]
		return x.pickAll(t, secondaries, want)
	case want.devices == 1:
		return x.pickOne(t, secondaries, want)
	}
	x.cells, x.options = x.cells[:0], x.options[:0]
	nested := want.size()*want.size() <= maxPairs
	start := x.newTable(want)
	x.cells[start].ok = true
	outer := start
	for to := len(x.groups); to > 0; {
		from := to - 1
		for nested && from > 0 && x.groups[from-1].numa == x.groups[to-1].numa {
			from--
		}
		if nested {
			outer = x.addNUMANode(t, secondaries, want, outer, from, to)
		} else {
			outer = x.addGroup(t, secondaries, want, outer, from)
		}
		to = from
	}
	last := &x.cells[outer+want.size()-1]
	return last.value, last.ok
}

func (x *search) newTable(want table) int {
	start := len(x.cells)
	for range want.size() {
		x.cells = append(x.cells, cell{})
	}
	return start
}

// addGroup adds what can be taken of the group to the table before, and returns where the new one is.
func (x *search) addGroup(t Type, secondaries []Type, want table, before, at int) int {
	options := len(x.options)
	g := &x.groups[at]
	for k := min(len(g.of), want.devices); k >= 0; k-- {
		o := option{amount: amount{devices: k}, value: x.groupValue(t, g, k)}
		for n, secondary := range secondaries {
			if k > 0 {
				o.joint[n] = min(g.secondaries[secondary], want.joint[n])
			}
		}
		if x.isAllowed(t, ScopePCIe, k, want) {
			x.options = append(x.options, o)
		}
	}
	return x.add(want, before, options)
}

// addNUMANode adds what can be taken of the groups, all of one NUMA node.
func (x *search) addNUMANode(t Type, secondaries []Type, want table, before, from, to int) int {
	inner := x.newTable(want)
	x.cells[inner].ok = true
	for at := to - 1; at >= from; at-- {
		inner = x.addGroup(t, secondaries, want, inner, at)
	}
	options := len(x.options)
	for at := inner + want.size() - 1; at >= inner; at-- {
		c := &x.cells[at]
		if !c.ok || !x.isAllowed(t, ScopeNUMANode, c.devices, want) {
			continue
		}
		o := c.option
		o.value.loss += x.numaLoss(t, x.groups[from].numa, o.devices)
		x.options = append(x.options, o)
	}
	return x.add(want, before, options)
}

// isAllowed is false where a plan for several pods wants the next wider scope, and all would be in one part of this.
func (x *search) isAllowed(t Type, scope Scope, devices int, want table) bool {
	wider, exact := x.limit.scopeOf(t)
	return !exact || wider != scope+1 || devices < want.devices
}

// add adds the options from the offset on to the table before.
func (x *search) add(want table, before, options int) int {
	after := x.newTable(want)
	for with := options; with < len(x.options); with++ {
		o := &x.options[with]
		for from := before; from < before+want.size(); from++ {
			if !x.cells[from].ok {
				continue
			}
			sum, ok := want.plus(x.cells[from].amount, o.amount)
			if !ok {
				continue
			}
			to := &x.cells[after+want.at(sum)]
			if v := x.cells[from].value.plus(o.value); !to.ok || v.compare(to.value) > 0 {
				*to = cell{option{sum, v}, true}
			}
		}
	}
	return after
}

// pickAll takes all that is in the groups.
func (x *search) pickAll(t Type, secondaries []Type, want table) (v value, ok bool) {
	var joint [numTypes - 1]int
	inNUMA := 0
	for at := range x.groups {
		g := &x.groups[at]
		v = v.plus(x.groupValue(t, g, len(g.of)))
		inNUMA += len(g.of)
		if at == len(x.groups)-1 || x.groups[at+1].numa != g.numa {
			v.loss += x.numaLoss(t, g.numa, inNUMA)
			if !x.isAllowed(t, ScopeNUMANode, inNUMA, want) {
				return v, false
			}
			inNUMA = 0
		}
		if !x.isAllowed(t, ScopePCIe, len(g.of), want) {
			return v, false
		}
		for n, secondary := range secondaries {
			joint[n] += g.secondaries[secondary]
		}
	}
	for n := range joint {
		if joint[n] < want.joint[n] {
			return v, false
		}
	}
	return v, true
}

// pickOne takes one device of the best group.
func (x *search) pickOne(t Type, secondaries []Type, want table) (best value, ok bool) {
	for g := range x.groups {
		enough := true
		for n, secondary := range secondaries {
			enough = enough && x.groups[g].secondaries[secondary] >= want.joint[n]
		}
		v := x.groupValue(t, &x.groups[g], 1)
		v.loss += x.numaLoss(t, x.groups[g].numa, 1)
		if enough && (!ok || v.compare(best) > 0) {
			best, ok = v, true
		}
	}
	return best, ok
}

// groupValue is how good it is to take the first k candidates of the group.
func (x *search) groupValue(t Type, g *group, k int) value {
	v := value{remote: k * g.lacks}
	for _, c := range g.of[:k] {
		v.score += c.score
		v.devices |= 1 << c.index
	}
	if g.number >= 0 {
		v.loss = x.loss(t, x.freeGroup[g.number], k)
	}
	if x.spreads(t) || x.o.ScoreFirst && x.sharesOf(t) {
		v.first = v.score
	}
	return v
}

func (x *search) numaLoss(t Type, numa, k int) int {
	if numa < 0 {
		return 0
	}
	return x.loss(t, x.freeNUMA[numa], k)
}

// loss is by how much taking k devices breaks up a part of the node with so many free ones: the number of ordered pairs of free devices that there will not be any
// more. A share leaves a used device used and is best on a part with few free ones; shares of NICs and FPGAs may spread.
func (x *search) loss(t Type, free, k int) int {
	if !x.sharesOf(t) {
		free = max(free, k)
		return free*free - (free-k)*(free-k)
	}
	if t == GPU {
		return free * k
	}
	return 0
}

// sharesOf is true if less than whole devices are asked for.
func (x *search) sharesOf(t Type) bool {
	switch t {
	case RDMA:
		return x.r.of[t].amounts[RDMAShare] < 100
	case FPGA:
		return x.r.of[t].amounts[FPGAShare] < 100
	}
	return x.shares
}
