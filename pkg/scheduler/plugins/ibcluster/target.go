// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"cmp"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// The actions that evict pods for the members of a gang, for one member after the other.
const (
	preemptAction = "preempt"
	reclaimAction = "reclaim"
)

// restrictToTarget keeps only one candidate node group, so that the evicting action places all members of the gang
// there. It chooses the node group with the lowest estimated cost. Node groups that the action has tried for the gang
// without success are left out until all were tried. The choice stays the same in a session.
func (s *session) restrictToTarget(p *gangScope, job *api.JobInfo) {
	key := target{job.UID, p.action}
	group, picked := s.targets[key]
	if !picked {
		group = s.pickTarget(p, job)
		s.targets[key] = group
	}
	p.restrict(func(g *topology.Group) bool { return g == group }, p.action+" frees resources for the gang in another group")
}

func (s *session) pickTarget(p *gangScope, job *api.JobInfo) *topology.Group {
	untried := slices.DeleteFunc(slices.Clone(p.candidates), func(g *topology.Group) bool { return s.memory.tried[target{job.UID, p.action}][g.Path()] })
	if len(untried) == 0 {
		delete(s.memory.tried, target{job.UID, p.action})
		untried = p.candidates
	}
	if len(untried) == 0 {
		return nil
	}
	estimate := s.newEstimate(job, p.action)
	costs := make(map[*topology.Group]cost, len(untried))
	for _, g := range untried {
		costs[g] = estimate.of(g)
	}
	return slices.MinFunc(untried, func(l, r *topology.Group) int {
		return cmp.Or(cmp.Compare(costs[l].short, costs[r].short), cmp.Compare(costs[l].evictions, costs[r].evictions))
	})
}

// rememberTried records, in the map tried, the node groups that were chosen in session s for preempt or reclaim and in
// which no member was placed. It removes the records of gangs with placed members and of deleted gangs.
func (p *plugin) rememberTried(s *session) {
	for key := range p.memory.tried {
		if s.ssn.Jobs[key.job] == nil {
			delete(p.memory.tried, key)
		}
	}
	for key, group := range s.targets {
		switch {
		case group == nil:
		case s.hasPlaced(s.ssn.Jobs[key.job]):
			delete(p.memory.tried, key)
		default:
			if p.memory.tried[key] == nil {
				p.memory.tried[key] = map[string]bool{}
			}
			p.memory.tried[key][group.Path()] = true
		}
	}
}

func (s *session) hasPlaced(job *api.JobInfo) bool {
	for _, status := range placed {
		for _, task := range job.TaskStatusIndex[status] {
			if !s.tentative(job, task) {
				return true
			}
		}
	}
	return false
}
