// SPDX-License-Identifier: Apache-2.0

package allocator

// How many devices to take from each group of candidates is a knapsack problem. A candidate is a device that the pod
// could have, and a group has the candidates of one type on one PCIe root. In joint allocation the type is the first of
// the joint types; the others are secondary types. The problem is solved by dynamic programming, with tables to which
// the groups are added one by one. Each cell of a table is for a number of devices, and numbers of secondary candidates
// on the PCIe roots of these devices. The cell keeps the best choice with these numbers. The groups of a NUMA node have
// a table of their own. The reason is that the cost of breaking up a NUMA node depends on all devices taken from it.
// The results of the NUMA nodes are then combined in the same way.

// amount is a number of devices of one type. For each secondary type (joint type after the first), it also has the
// number of candidates on the PCIe roots of these devices. This number is not counted beyond the number that the pod
// needs.
type amount struct {
	devices int
	joint   [numTypes - 1]int
}

// option is a number of devices that may be taken from one NUMA node, or from one group of candidates on a PCIe root.
// It also has the value of taking them.
type option struct {
	amount
	value value
}

// cell is the best set of devices found so far with a given number of devices and, for each secondary type, a given
// number of candidates. ok is false if no set has these numbers.
type cell struct {
	option
	ok bool
}

// table describes a table of the dynamic programming by the requested numbers of devices and of secondary candidates
// (amount). The table is an array of cells, one for each amount up to the requested amount.
type table amount

func (t table) size() int { return (t.devices + 1) * (t.joint[0] + 1) * (t.joint[1] + 1) }

func (t table) at(a amount) int {
	return (a.devices*(t.joint[0]+1)+a.joint[0])*(t.joint[1]+1) + a.joint[1]
}

// plus returns the sum of the amounts. For each secondary type (joint type after the first), the number of candidates
// in the sum is limited to the number that the pod needs. plus returns false if the sum has more devices than
// requested.
func (t table) plus(a, b amount) (amount, bool) {
	a.devices += b.devices
	for n := range a.joint {
		a.joint[n] = min(a.joint[n]+b.joint[n], t.joint[n])
	}
	return a, a.devices <= t.devices
}

// knapsack decides how many devices of a type to take from each group of candidates on one PCIe root. Later searches
// reuse its buffers.
type knapsack struct {
	q      *problem
	groups []group
	// freeGroup counts the unused devices of the requested type on each PCIe root, or in each group that replaces a root.
	// freeNUMA counts them on each NUMA node.
	freeGroup, freeNUMA []int
	cells               []cell
	options             []option
}

// maxPairs limits how many pairs of cells are compared when a NUMA node is added to a table. If more pairs would be
// compared, the search ignores the cost of breaking up NUMA nodes.
const maxPairs = 1 << 18

// pickNumbers returns the value of the best choice of devices from the groups of candidates; false if no choice is
// possible. The choice has the numbers of devices and of secondary candidates in want. have is the number of all
// candidates in the groups.
func (sack *knapsack) pickNumbers(t Type, secondaries []Type, have int, want table) (value, bool) {
	switch {
	case have == want.devices:
		return sack.pickAll(t, secondaries, want)
	case len(sack.groups) == 1:
		sack.groups[0].of = sack.groups[0].of[:want.devices]
		return sack.pickAll(t, secondaries, want)
	case want.devices == 1:
		return sack.pickOne(t, secondaries, want)
	}
	sack.cells, sack.options = sack.cells[:0], sack.options[:0]
	nested := want.size()*want.size() <= maxPairs
	start := sack.newTable(want)
	sack.cells[start].ok = true
	outer := start
	for to := len(sack.groups); to > 0; {
		from := to - 1
		for nested && from > 0 && sack.groups[from-1].numa == sack.groups[to-1].numa {
			from--
		}
		if nested {
			outer = sack.addNUMANode(t, secondaries, want, outer, from, to)
		} else {
			outer = sack.addGroup(t, secondaries, want, outer, from)
		}
		to = from
	}
	last := &sack.cells[outer+want.size()-1]
	return last.value, last.ok
}

func (sack *knapsack) newTable(want table) int {
	start := len(sack.cells)
	for range want.size() {
		sack.cells = append(sack.cells, cell{})
	}
	return start
}

// addGroup adds the group of candidates with index at to a table of the dynamic programming. The parameter before is
// the index in sack.cells of the table's first cell. The group has one option for each number of devices that can be
// taken from it. addGroup returns the index of the first cell of the new table.
func (sack *knapsack) addGroup(t Type, secondaries []Type, want table, before, at int) int {
	options := len(sack.options)
	g := &sack.groups[at]
	for k := min(len(g.of), want.devices); k >= 0; k-- {
		o := option{amount: amount{devices: k}, value: sack.groupValue(t, g, k)}
		for n, secondary := range secondaries {
			if k > 0 {
				o.joint[n] = min(g.secondaries[secondary], want.joint[n])
			}
		}
		if sack.q.isAllowed(t, ScopePCIe, k, want) {
			sack.options = append(sack.options, o)
		}
	}
	return sack.add(want, before, options)
}

// addNUMANode adds one NUMA node, whose groups are sack.groups[from:to], to a table of the dynamic programming. The
// parameter before is the index in sack.cells of the table's first cell. addNUMANode returns the index of the first
// cell of the new table.
func (sack *knapsack) addNUMANode(t Type, secondaries []Type, want table, before, from, to int) int {
	inner := sack.newTable(want)
	sack.cells[inner].ok = true
	for at := to - 1; at >= from; at-- {
		inner = sack.addGroup(t, secondaries, want, inner, at)
	}
	options := len(sack.options)
	for at := inner + want.size() - 1; at >= inner; at-- {
		c := &sack.cells[at]
		if !c.ok || !sack.q.isAllowed(t, ScopeNUMANode, c.devices, want) {
			continue
		}
		o := c.option
		o.value.loss += sack.numaLoss(t, sack.groups[from].numa, o.devices)
		sack.options = append(sack.options, o)
	}
	return sack.add(want, before, options)
}

// isAllowed reports whether a choice may take the given number of devices from one part of the node of the given scope.
// It returns false if a plan for several pods requires a wider scope, and this part would provide all requested
// devices.
func (q *problem) isAllowed(t Type, scope Scope, devices int, want table) bool {
	wider, exact := q.limit.scopeOf(t)
	return !exact || wider != scope+1 || devices < want.devices
}

// add combines each cell of a table of the dynamic programming with each option in sack.options from index options on.
// These are the ways to take devices from one group or NUMA node. The parameter before is the index in sack.cells of
// the table's first cell. add returns the index of the first cell of the new table, which has the best choice for each
// amount.
func (sack *knapsack) add(want table, before, options int) int {
	after := sack.newTable(want)
	for with := options; with < len(sack.options); with++ {
		o := &sack.options[with]
		for from := before; from < before+want.size(); from++ {
			if !sack.cells[from].ok {
				continue
			}
			sum, ok := want.plus(sack.cells[from].amount, o.amount)
			if !ok {
				continue
			}
			to := &sack.cells[after+want.at(sum)]
			if v := sack.cells[from].value.plus(o.value); !to.ok || v.compare(to.value) > 0 {
				*to = cell{option{sum, v}, true}
			}
		}
	}
	return after
}

// pickAll returns the value of taking all candidates in all groups. It returns false if that choice is not allowed. It
// also returns false if the PCIe roots of the groups lack candidates of a secondary type (joint type after the first).
func (sack *knapsack) pickAll(t Type, secondaries []Type, want table) (v value, ok bool) {
	var joint [numTypes - 1]int
	inNUMA := 0
	for at := range sack.groups {
		g := &sack.groups[at]
		v = v.plus(sack.groupValue(t, g, len(g.of)))
		inNUMA += len(g.of)
		if at == len(sack.groups)-1 || sack.groups[at+1].numa != g.numa {
			v.loss += sack.numaLoss(t, g.numa, inNUMA)
			if !sack.q.isAllowed(t, ScopeNUMANode, inNUMA, want) {
				return v, false
			}
			inNUMA = 0
		}
		if !sack.q.isAllowed(t, ScopePCIe, len(g.of), want) {
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

// pickOne returns the value of the best single device. It returns false if no PCIe root has enough candidates of each
// secondary type (joint type after the first).
func (sack *knapsack) pickOne(t Type, secondaries []Type, want table) (best value, ok bool) {
	for g := range sack.groups {
		enough := true
		for n, secondary := range secondaries {
			enough = enough && sack.groups[g].secondaries[secondary] >= want.joint[n]
		}
		v := sack.groupValue(t, &sack.groups[g], 1)
		v.loss += sack.numaLoss(t, sack.groups[g].numa, 1)
		if enough && (!ok || v.compare(best) > 0) {
			best, ok = v, true
		}
	}
	return best, ok
}

// groupValue returns the value of taking the first k candidates of the group, which are on one PCIe root.
func (sack *knapsack) groupValue(t Type, g *group, k int) value {
	v := value{remote: k * g.lacks}
	for _, c := range g.of[:k] {
		v.score += c.score
		v.devices |= 1 << c.index
	}
	if g.number >= 0 {
		v.loss = sack.q.loss(t, sack.freeGroup[g.number], k)
	}
	if sack.q.spreads(t) || sack.q.o.ScoreFirst && sack.q.sharesOf(t) {
		v.first = v.score
	}
	return v
}

func (sack *knapsack) numaLoss(t Type, numa, k int) int {
	if numa < 0 {
		return 0
	}
	return sack.q.loss(t, sack.freeNUMA[numa], k)
}

// loss returns the cost of taking k devices from a part of the node that has the given number of free devices. For
// whole devices the cost is the number of ordered pairs of free devices that no longer exist afterwards. Shares of GPUs
// cost more in parts with more free GPUs, so that parts with few free GPUs are preferred. Shares of NICs and FPGAs cost
// nothing, so that they may be anywhere.
func (q *problem) loss(t Type, free, k int) int {
	if !q.sharesOf(t) {
		free = max(free, k)
		return free*free - (free-k)*(free-k)
	}
	if t == GPU {
		return free * k
	}
	return 0
}

// sharesOf reports whether the request is for a part of each device of the type, not for whole devices.
func (q *problem) sharesOf(t Type) bool {
	switch t {
	case RDMA:
		return q.r.of[t].amounts[RDMAShare] < 100
	case FPGA:
		return q.r.of[t].amounts[FPGAShare] < 100
	}
	return q.shares
}
