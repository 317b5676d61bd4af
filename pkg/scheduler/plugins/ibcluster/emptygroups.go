// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"encoding/binary"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// roundingSlack is by how much requests may exceed what a node has: less than the smallest amount that can be asked for.
const roundingSlack = 0.5

// emptyGroups are the groups as they would be if nobody used them, for as long as the session. Each is reckoned when it is asked
// for.
type emptyGroups struct {
	ssn *framework.Session
	// names are the resources that some node has, pod slots among them. Others are the quota's, as limits.cpu is, and bound no group.
	names []v1.ResourceName
	known map[*topology.Group]*emptyGroup
}

func newEmptyGroups(ssn *framework.Session) *emptyGroups {
	e := &emptyGroups{ssn: ssn, names: ssn.TotalResource.ResourceNames(), known: map[*topology.Group]*emptyGroup{}}
	slices.Sort(e.names)
	return e
}

// of returns the group as it would be.
func (e *emptyGroups) of(group *topology.Group) *emptyGroup {
	if known, ok := e.known[group]; ok {
		return known
	}
	g := &emptyGroup{total: api.EmptyResource(), copiesOf: map[string]int{}}
	at := map[string]int{}
	for _, name := range group.Nodes {
		node := e.ssn.Nodes[name]
		if node == nil {
			continue
		}
		g.total.Add(node.Allocatable)
		room := e.appendAmounts(nil, node.Allocatable)
		key := string(appendKey(nil, room))
		i, ok := at[key]
		if !ok {
			i = len(g.nodes)
			at[key] = i
			g.nodes = append(g.nodes, alikeNodes{room: room})
		}
		g.nodes[i].count++
	}
	e.known[group] = g
	return g
}

// appendAmounts appends how much there is of each resource that some node has.
func (e *emptyGroups) appendAmounts(to []float64, of *api.Resource) []float64 {
	for _, name := range e.names {
		to = append(to, of.Get(name))
	}
	return to
}

// appendKey appends what is equal for equal amounts.
func appendKey(to []byte, amounts []float64) []byte {
	for _, amount := range amounts {
		to = binary.LittleEndian.AppendUint64(to, math.Float64bits(amount))
	}
	return to
}

// emptyGroup is a group whose nodes are empty.
type emptyGroup struct {
	total *api.Resource
	nodes []alikeNodes
	// copiesOf is what copies found, by the kind's key.
	copiesOf map[string]int
}

// alikeNodes are nodes that have equal amounts of everything.
type alikeNodes struct {
	room  []float64
	count int
}

// copies is how many members of the kind the nodes take when they take no others.
func (g *emptyGroup) copies(k *memberKind) int {
	if known, ok := g.copiesOf[k.key]; ok {
		return known
	}
	sum := 0
	for _, nodes := range g.nodes {
		each := math.Inf(1)
		for r, amount := range k.request {
			if amount > 0 {
				each = min(each, math.Floor((nodes.room[r]+roundingSlack)/amount))
			}
		}
		sum += int(min(each, math.MaxInt32)) * nodes.count
	}
	g.copiesOf[k.key] = sum
	return sum
}
