// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/keybytes"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// roundingSlack is the amount by which requests may exceed a node's resources, because sums are rounded. It is less
// than the smallest amount that can be requested.
const roundingSlack = 0.5

// emptyGroups holds the node groups as if no pods ran on their nodes, and caches messages that say why none of them
// could hold a gang. The memory keeps the emptyGroups as long as node groups and nodes do not change. Each node group
// is computed at its first use.
type emptyGroups struct {
	forest *topology.Forest
	// names are the resources that at least one node has, including pod slots. Other resources, such as limits.cpu,
	// belong to quotas and do not limit a node group.
	names []v1.ResourceName
	nodes []emptyNode
	at    map[string]int
	known map[*topology.Group]*emptyGroup
	// equivalent has one emptyGroup for all node groups with equally many nodes of the same resources. The key
	// consists of these resources and numbers of nodes.
	equivalent map[string]*emptyGroup
	classes    map[string]*taskClass
	// votes has the messages that the method vote has returned in this session, by the gang's request and node groups.
	// lastVotes has those of the previous session.
	votes, lastVotes map[string]string
}

// emptyNode is a node and its whole amount of each resource.
type emptyNode struct {
	name string
	node *v1.Node
	room []float64
}

func newEmptyGroups(ssn *framework.Session, forest *topology.Forest) *emptyGroups {
	e := &emptyGroups{
		forest: forest, names: namesIn(ssn), nodes: make([]emptyNode, 0, len(ssn.NodeList)), at: make(map[string]int, len(ssn.NodeList)),
		known: map[*topology.Group]*emptyGroup{}, equivalent: map[string]*emptyGroup{}, classes: map[string]*taskClass{}, votes: map[string]string{},
	}
	for i, node := range ssn.NodeList {
		e.nodes = append(e.nodes, emptyNode{name: node.Name, node: node.Node, room: e.appendAmounts(nil, node.Allocatable)})
		e.at[node.Name] = i
	}
	return e
}

// namesIn returns the resources that at least one node of the session has, sorted by name.
func namesIn(ssn *framework.Session) []v1.ResourceName {
	names := []v1.ResourceName(ssn.TotalResource.ResourceNames())
	slices.Sort(names)
	return names
}

// isCurrent reports whether the stored node groups and resources of nodes still match the session. It compares
// resources only for nodes whose Node object has changed.
func (e *emptyGroups) isCurrent(ssn *framework.Session, forest *topology.Forest) bool {
	if e.forest != forest || len(e.nodes) != len(ssn.NodeList) || !slices.Equal(e.names, namesIn(ssn)) {
		return false
	}
	room := make([]float64, 0, len(e.names))
	for i, node := range ssn.NodeList {
		n := &e.nodes[i]
		if n.name == node.Name && n.node == node.Node {
			continue
		}
		room = e.appendAmounts(room[:0], node.Allocatable)
		if n.name != node.Name || !slices.Equal(n.room, room) {
			return false
		}
		n.node = node.Node
	}
	return true
}

// emptyGroups returns the session's node groups as if no pods ran on their nodes.
func (s *session) emptyGroups() *emptyGroups {
	switch {
	case s.groupsRead:
	case s.memory.empty == nil || !s.memory.empty.isCurrent(s.ssn, s.forest):
		s.memory.empty = newEmptyGroups(s.ssn, s.forest)
	default:
		s.memory.empty.lastVotes, s.memory.empty.votes = s.memory.empty.votes, map[string]string{}
	}
	s.groupsRead = true
	return s.memory.empty
}

// vote returns a message that says why no node group could hold the gang; empty if a node group could. key identifies
// the gang's request and node groups. find computes the message if it is not cached. A message stays cached as long
// as each session uses it.
func (e *emptyGroups) vote(key []byte, find func() string) string {
	message, ok := e.votes[string(key)]
	if ok {
		return message
	}
	if message, ok = e.lastVotes[string(key)]; !ok {
		message = find()
	}
	e.votes[string(key)] = message
	return message
}

// of returns the node group as if no pods ran on its nodes. Node groups with equally many nodes of the same resources
// share one result.
func (e *emptyGroups) of(group *topology.Group) *emptyGroup {
	if known, ok := e.known[group]; ok {
		return known
	}
	classes, total := map[string]*alikeNodes{}, make([]float64, len(e.names))
	for _, name := range group.Nodes {
		i, ok := e.at[name]
		if !ok {
			continue
		}
		node := &e.nodes[i]
		for r, amount := range node.room {
			total[r] += amount
		}
		key := string(keybytes.Float(nil, node.room...))
		if classes[key] == nil {
			classes[key] = &alikeNodes{room: node.room}
		}
		classes[key].count++
	}
	g := &emptyGroup{total: e.resource(total)}
	var all []byte
	for _, key := range slices.Sorted(maps.Keys(classes)) {
		g.nodes = append(g.nodes, *classes[key])
		all = binary.LittleEndian.AppendUint64(append(all, key...), uint64(classes[key].count))
	}
	if equivalent, ok := e.equivalent[string(all)]; ok {
		g = equivalent
	}
	e.equivalent[string(all)], e.known[group] = g, g
	return g
}

// appendAmounts appends, for each resource in e.names, its amount in a Resource (the parameter of) to the list to.
func (e *emptyGroups) appendAmounts(to []float64, of *api.Resource) []float64 {
	for _, name := range e.names {
		to = append(to, of.Get(name))
	}
	return to
}

// resource converts amounts, in the order of e.names, to a Resource.
func (e *emptyGroups) resource(amounts []float64) *api.Resource {
	of := api.EmptyResource()
	for r, name := range e.names {
		switch name {
		case v1.ResourceCPU:
			of.MilliCPU = amounts[r]
		case v1.ResourceMemory:
			of.Memory = amounts[r]
		default:
			of.SetScalar(name, amounts[r])
		}
	}
	return of
}

// emptyGroup is a node group as if no pods ran on its nodes.
type emptyGroup struct {
	total *api.Resource
	nodes []alikeNodes
	// copiesOf caches how many members of each task class fit on the group's nodes, by the class's number. An entry
	// is this number of members plus one; 0 means that it was not computed yet.
	copiesOf []int
}

// alikeNodes is a set of nodes with equal amounts of each resource.
type alikeNodes struct {
	room  []float64
	count int
}

// copies returns how many members of the task class fit on the group's nodes if no other pods run there.
func (g *emptyGroup) copies(k *taskClass) int {
	if k.number < len(g.copiesOf) && g.copiesOf[k.number] > 0 {
		return g.copiesOf[k.number] - 1
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
	if missing := k.number + 1 - len(g.copiesOf); missing > 0 {
		g.copiesOf = append(g.copiesOf, make([]int, missing)...)
	}
	g.copiesOf[k.number] = sum + 1
	return sum
}
