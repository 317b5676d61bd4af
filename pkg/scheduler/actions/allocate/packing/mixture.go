// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"maps"
	"math"
	"slices"
)

const (
	// slight is the size of values that are zero but for rounding errors.
	slight = 1e-9
	// spread perturbs the rows of the kinds, so that each pivot improves the solution. Without it many rows would tie.
	spread = 1e-7
	// plenty is the multiple of the demand at which the search for more room stops.
	plenty = 1.02
)

// group is a set of equal nodes.
type group struct {
	*Node
	nodes []int
}

// groups divides the nodes into groups of equal nodes, in the order of the first of each.
func (p *Problem) groups() []group {
	var out []group
	at := map[string]int{}
	for n := range p.Nodes {
		key := p.Nodes[n].Key()
		g, ok := at[key]
		if !ok {
			g = len(out)
			at[key] = g
			out = append(out, group{Node: &p.Nodes[n]})
		}
		out[g].nodes = append(out[g].nodes, n)
	}
	return out
}

// part is a share of a group's nodes that are filled in one way.
type part struct {
	group int
	taken []int
	// nodes is the number of nodes, not necessarily whole.
	nodes float64
}

// mixture is the best way to fill the nodes if they could be divided: the linear program of Gilmore and Gomory (A linear
// programming approach to the cutting stock problem, 1961), with a row for each kind and each group of equal nodes, and a column
// for each way to fill a node, generated when its price requires it. It maximizes the part of all tasks that has room.
//
// Each group has a key: a way that fills the nodes not filled in its other ways. So the basis is no larger than the number of
// kinds: generalized upper bounding (Dantzig and Van Slyke, 1967).
type mixture struct {
	*Problem
	groups []group
	// demand is how many tasks of each kind are wanted.
	demand []float64
	keys   [][]int
	basis  []variable
	// values are the values of the basis, portion is the value of the variable of that kind.
	values  []float64
	portion float64
	// prices are the prices of one task of each kind; all wanted tasks together are worth 1.
	prices  []float64
	inverse [][]float64
	// worth is an upper bound of the worth of a node of each group at the last prices. sound reports whether all bounds
	// are for the same prices.
	worth []float64
	sound bool
	steps int
}

type sort int

const (
	// portion is the share of all tasks that has room.
	portion sort = iota
	// surplus is the room for a kind beyond that share.
	surplus
	// way is how many nodes of a group are filled in one way.
	way
)

// variable is a column of the program.
type variable struct {
	sort  sort
	kind  int
	group int
	taken []int
}

// mix solves the linear program; nil when the steps run out, or the numerics fail, before there is a useful result.
func (p *Problem) mix(steps *int) *mixture {
	m := &mixture{Problem: p, groups: p.groups(), steps: *steps, prices: make([]float64, len(p.Kinds))}
	defer func() { *steps = m.steps }()
	for _, count := range p.counts() {
		m.demand = append(m.demand, float64(count))
	}
	m.worth = make([]float64, len(m.groups))
	if !m.begin() {
		return nil
	}
	for g, quiet := 0, 0; quiet < len(m.groups); g = (g + 1) % len(m.groups) {
		if m.portion >= plenty || m.steps < 0 {
			return m
		}
		improved, ok := m.enter(g)
		if !ok {
			return nil
		}
		if quiet++; improved {
			quiet = 0
		}
	}
	m.sound = true
	return m
}

// bound returns an upper bound of the portion. All tasks together are worth 1, so it is the total worth of all nodes.
func (m *mixture) bound() (sum float64) {
	for g, worth := range m.worth {
		sum += worth * float64(len(m.groups[g].nodes))
	}
	return sum
}

// begin builds a basis of one way for each group, by the sizes of tasks.
func (m *mixture) begin() bool {
	scale := m.scale()
	for k := range m.Kinds {
		m.prices[k] = size(m.Kinds[k].Request, scale)
	}
	cover := make([]float64, len(m.Kinds))
	for _, g := range m.groups {
		taken, _, _ := m.dearest(g.Node, m.prices, &m.steps)
		m.keys = append(m.keys, taken)
		for k, count := range taken {
			cover[k] += float64(count * len(g.nodes))
		}
	}
	least := 0
	for k := range cover {
		if (cover[k]+m.spread(k))*m.demand[least] < (cover[least]+m.spread(least))*m.demand[k] {
			least = k
		}
	}
	for k := range m.Kinds {
		if k == least {
			m.basis = append(m.basis, variable{sort: portion})
		} else {
			m.basis = append(m.basis, variable{sort: surplus, kind: k})
		}
	}
	return m.solve()
}

// spread returns the perturbation of the kind's row: room that exists without any node.
func (m *mixture) spread(k int) float64 {
	return spread * max(m.demand[k], 1) * (1 + math.Mod(float64(k+1)*0.618, 1))
}

// column returns the variable's column, less the column of its group's key.
func (m *mixture) column(v variable) []float64 {
	out := make([]float64, len(m.Kinds))
	switch v.sort {
	case portion:
		for k, count := range m.demand {
			out[k] = -count
		}
	case surplus:
		out[v.kind] = -1
	case way:
		for k, count := range v.taken {
			out[k] = float64(count - m.keys[v.group][k])
		}
	}
	return out
}

// solve recomputes the inverse of the basis, and with it the values and prices.
func (m *mixture) solve() bool {
	size := len(m.basis)
	m.steps -= size * size
	matrix := make([][]float64, size)
	for row := range matrix {
		matrix[row] = make([]float64, 2*size)
		matrix[row][size+row] = 1
	}
	for i, v := range m.basis {
		for row, value := range m.column(v) {
			matrix[row][i] = value
		}
	}
	if !invert(matrix) {
		return false
	}
	m.inverse = matrix
	for row := range matrix {
		m.inverse[row] = matrix[row][size:]
	}
	short := make([]float64, size)
	for k := range short {
		short[k] = -m.spread(k)
		for g, key := range m.keys {
			short[k] -= float64(key[k] * len(m.groups[g].nodes))
		}
	}
	m.values = m.times(short)
	for i, v := range m.basis {
		if v.sort == portion {
			m.portion = m.values[i]
			for k := range m.prices {
				m.prices[k] = -m.inverse[i][k]
			}
		}
	}
	return true
}

func (m *mixture) times(column []float64) []float64 {
	out := make([]float64, len(column))
	for i, row := range m.inverse {
		for k, value := range column {
			out[i] += row[k] * value
		}
	}
	return out
}

// enter adds a way to fill the group's nodes, or a surplus, that increases the portion. It reports whether there was one, and
// whether the numerics are sound.
func (m *mixture) enter(g int) (improved, ok bool) {
	for k, price := range m.prices {
		if price < -slight {
			return true, m.pivot(variable{sort: surplus, kind: k})
		}
	}
	taken, value, bound := m.dearest(m.groups[g].Node, m.prices, &m.steps)
	m.worth[g] = bound
	for k, count := range m.keys[g] {
		value -= m.prices[k] * float64(count)
	}
	if value*float64(len(m.groups[g].nodes)) < 1e-8 {
		return false, true
	}
	return true, m.pivot(variable{sort: way, group: g, taken: taken})
}

// pivot adds the variable to the basis, in place of the first one that drops to zero.
func (m *mixture) pivot(v variable) bool {
	rates := m.times(m.column(v))
	leaving, least := -1, math.Inf(1)
	for i, rate := range rates {
		if m.basis[i].sort != portion && rate > slight {
			if at := max(m.values[i], 0) / rate; at < least {
				leaving, least = i, at
			}
		}
	}
	// The keys of the groups that have other ways in the basis.
	key, others := -1, m.others(v)
	for _, g := range slices.Sorted(maps.Keys(others)) {
		at := others[g]
		rate, has := 0.0, float64(len(m.groups[g].nodes))
		if v.sort == way && v.group == g {
			rate = 1
		}
		for _, i := range at {
			rate -= rates[i]
			has -= m.values[i]
		}
		if rate > slight {
			if at := max(has, 0) / rate; at < least {
				key, least = g, at
			}
		}
	}
	switch {
	case key >= 0 && v.sort == way && v.group == key:
		m.keys[key] = v.taken
	case key >= 0:
		i := others[key][0]
		m.keys[key], m.basis[i] = m.basis[i].taken, v
	case leaving >= 0:
		m.basis[leaving] = v
	default:
		return false
	}
	return m.solve()
}

// others returns, by group, the places in the basis of its ways; also for the variable's group when it has none.
func (m *mixture) others(v variable) map[int][]int {
	out := map[int][]int{}
	if v.sort == way {
		out[v.group] = nil
	}
	for i, b := range m.basis {
		if b.sort == way {
			out[b.group] = append(out[b.group], i)
		}
	}
	return out
}

// parts returns how the groups' nodes are filled.
func (m *mixture) parts() []part {
	var out []part
	rest := make([]float64, len(m.groups))
	for g := range m.groups {
		rest[g] = float64(len(m.groups[g].nodes))
	}
	for i, v := range m.basis {
		if v.sort == way {
			out = append(out, part{v.group, v.taken, m.values[i]})
			rest[v.group] -= m.values[i]
		}
	}
	for g, nodes := range rest {
		out = append(out, part{g, m.keys[g], nodes})
	}
	slices.SortStableFunc(out, func(l, r part) int { return l.group - r.group })
	return out
}
