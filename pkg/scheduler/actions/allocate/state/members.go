// SPDX-License-Identifier: Apache-2.0

package state

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
)

// MemberNodes are the nodes that have members of a job.
type MemberNodes struct {
	// Nodes are the nodes with members, without duplicates. Nodes of members that are placed later are appended.
	Nodes []int32
	Known map[int32]bool
	// sets caches, for each set of nodes, whether a member is on one of its nodes (method In).
	sets map[*nodeset.Set]presence
}

// presence caches whether a member is on a node of a set. asked is how many entries of MemberNodes.Nodes, from the
// first on, were looked up in the set.
type presence struct {
	asked int
	some  bool
}

// memberNodesOf returns the nodes of the job's members that are placed or bound.
func memberNodesOf(index *nodeset.Index, job *api.JobInfo) *MemberNodes {
	m := &MemberNodes{}
	if len(job.TaskStatusIndex[api.Pending]) == len(job.Tasks) {
		return m
	}
	for status, tasks := range job.TaskStatusIndex {
		if !api.AllocatedStatus(status) {
			continue
		}
		for _, task := range tasks {
			if node, ok := index.Number(task.NodeName); ok {
				m.add(node)
			}
		}
	}
	return m
}

func (m *MemberNodes) add(node int32) {
	if !m.Known[node] {
		if m.Known == nil { // most waiting gangs have no members on nodes and need no map
			m.Known = map[int32]bool{}
		}
		m.Known[node] = true
		m.Nodes = append(m.Nodes, node)
	}
}

// In reports whether a member is on a node of the set. Each node is looked up once for each set.
func (m *MemberNodes) In(set *nodeset.Set) bool {
	if m.sets == nil {
		m.sets = map[*nodeset.Set]presence{}
	}
	p := m.sets[set]
	for ; !p.some && p.asked < len(m.Nodes); p.asked++ {
		p.some = set.Has(m.Nodes[p.asked])
	}
	m.sets[set] = p
	return p.some
}
