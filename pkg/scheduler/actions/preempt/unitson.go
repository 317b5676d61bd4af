// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
)

// unitsOn returns the units with pods on the nodes, the cheapest first.
func (s *planner) unitsOn(set *nodeset.Set) []*unit {
	if len(set.Nodes) == len(s.of.run.Index.Nodes) {
		return s.units
	}
	if s.byNode == nil {
		s.byNode = make([][]int32, len(s.of.run.Index.Nodes))
		for i, u := range s.units {
			for _, node := range u.nodes {
				s.byNode[node] = append(s.byNode[node], int32(i))
			}
		}
	}
	var indices []int32
	for _, node := range set.Nodes {
		indices = append(indices, s.byNode[node]...)
	}
	slices.Sort(indices)
	units := make([]*unit, 0, len(indices))
	for _, i := range slices.Compact(indices) {
		units = append(units, s.units[i])
	}
	return units
}

// withSpare returns the unit, and for a core the spare pods that go with it and are not gone.
func (u *unit) withSpare(gone map[*unit]bool) []*unit {
	return slices.DeleteFunc(append(slices.Clone(u.spare), u), func(u *unit) bool { return gone[u] || u.isEvicted() })
}

// isEvicted reports whether the session has evicted a pod of the unit.
func (u *unit) isEvicted() bool {
	return slices.ContainsFunc(u.tasks, func(task *api.TaskInfo) bool { return !api.PreemptableStatus(task.Status) })
}

// dependsOnWork reports whether the pods that may be evicted depend on the work that pods would lose, which changes with time: a job
// may lose only some of its pods.
func (s *planner) dependsOnWork() bool {
	return slices.ContainsFunc(s.units, func(u *unit) bool { return u.partial })
}
