// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
)

// Some jobs may lose only some of their pods, or some without the others. This file chooses among the pods of such a job. For each
// place, pods on nodes that may take a member go rather than others.

// unitsIn returns the units with pods in the place, the cheapest first.
func (s *planner) unitsIn(r *rooms) []*unit {
	units := s.unitsOn(r.set)
	of := map[*flexible][]*unit{}
	for _, u := range units {
		if u.flexible != nil {
			of[u.flexible] = append(of[u.flexible], u)
		}
	}
	divided := map[*flexible][]*unit{}
	for job, here := range of {
		if !job.partial && !job.whole {
			s.breakLess(job, here, r, divided)
		} else if s.straddles(job.job, r) {
			divided[job] = s.of.unitsOf(&flexible{job: job.job, queue: job.queue}, s.asker, s.of.run.Now(), r)
		}
	}
	if len(divided) > 0 {
		var all []*unit
		for _, u := range units {
			if u.flexible == nil || divided[u.flexible] == nil {
				all = append(all, u)
			} else if here := divided[u.flexible]; len(here) > 0 {
				all, divided[u.flexible] = append(all, here...), []*unit{}
			}
		}
		units = all
		slices.SortStableFunc(units, func(l, r *unit) int { return l.cost.compare(r.cost) })
	}
	if len(s.keptPods) == 0 {
		return units
	}
	return slices.DeleteFunc(units, func(u *unit) bool {
		return slices.ContainsFunc(u.tasks, func(task *api.TaskInfo) bool { return s.keptPods[task.UID] })
	})
}

// unitsOn returns the units with pods on the nodes, the cheapest first.
func (s *planner) unitsOn(set *nodeset.Set) []*unit {
	if len(set.Nodes) == len(s.of.run.Index.Nodes) {
		return slices.Clone(s.units)
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

// breakLess adds the units of the job to divided, with another cost, if fewer of them leave the job below its minimum than without
// regard to the place: its pods elsewhere stay. here are the units in the place, which are pods.
func (s *planner) breakLess(job *flexible, here []*unit, r *rooms, divided map[*flexible][]*unit) {
	useful, breaking := 0, 0
	for _, u := range here {
		if r.concerns(u) {
			useful++
			breaking += u.cost.broken
		}
	}
	less := breaking - max(0, useful-job.spare)
	if less <= 0 {
		return
	}
	for _, u := range here {
		if less > 0 && u.cost.broken > 0 && r.concerns(u) {
			spared := *u
			spared.cost.broken = 0
			u = &spared
			less--
		}
		divided[job] = append(divided[job], u)
	}
}

// straddles reports whether the job has pods on nodes that may take a member in the place, and also on others.
func (s *planner) straddles(job *api.JobInfo, r *rooms) bool {
	in, out := false, false
	for _, status := range []api.TaskStatus{api.Running, api.Bound} {
		for _, task := range job.TaskStatusIndex[status] {
			takes := r.takes(s.of.numberOf(task))
			in, out = in || takes, out || !takes
		}
	}
	return in && out
}

// unitsBeside returns all units, the cheapest first: the units of the place, and the others without regard to a place.
func (s *planner) unitsBeside(r *rooms) []*unit {
	known := map[api.TaskID]bool{}
	for _, task := range tasksOf(r.units) {
		known[task.UID] = true
	}
	all := slices.Clone(r.units)
	for _, u := range s.units {
		if !slices.ContainsFunc(u.tasks, func(task *api.TaskInfo) bool { return known[task.UID] || s.keptPods[task.UID] }) {
			all = append(all, u)
		}
	}
	slices.SortStableFunc(all, func(l, r *unit) int { return l.cost.compare(r.cost) })
	return all
}

// dependsOnWork reports whether the pods that may be evicted depend on the work that pods would lose, which changes with time: a job
// may lose only some of its pods.
func (s *planner) dependsOnWork() bool {
	return slices.ContainsFunc(s.units, func(u *unit) bool { return u.flexible != nil && u.flexible.partial })
}
