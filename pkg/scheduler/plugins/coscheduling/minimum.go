// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"fmt"

	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// Satisfied is the type of the condition of a PodGroup whose gang reached its minimum once, by which a leader knows what the
// one before it saw.
const Satisfied scheduling.PodGroupConditionType = gangs.SatisfiedCondition

// noteSatisfied notes which gangs reached their minimum, together with those of their group, and forgets it with the last of a gang's
// members: a gang that was lost and is made anew is a gang again (https://github.com/koordinator-sh/koordinator/issues/2244).
func (s *session) noteSatisfied() {
	for _, g := range s.gangs {
		switch {
		case g.PodGroup.Status.Phase == scheduling.PodGroupCompleted:
			g.satisfied = true
		case g.MatchPolicy != gangs.OnceSatisfied || g.alive() == 0:
			g.dropCondition(Satisfied)
		default:
			g.satisfied = g.hasCondition(Satisfied)
		}
	}
	for _, g := range s.gangs {
		if g.MatchPolicy == gangs.OnceSatisfied && !g.satisfied && s.groupReached(g) {
			s.setCondition(g, Satisfied, "GangSatisfied",
				fmt.Sprintf("%d members were bound together: as long as one of them is left, others are bound as they come", g.alive()))
		}
	}
	for _, g := range s.gangs {
		g.satisfied = g.satisfied || g.hasCondition(Satisfied)
		if g.satisfied && g.IsPending() {
			g.PodGroup.Status.Phase = scheduling.PodGroupInqueue // what it takes was let in before
		}
	}
}

// groupReached is true if the gang and all others of its group have reached their minima.
func (s *session) groupReached(g *gang) bool {
	if len(g.Group) == 0 {
		return g.reached()
	}
	for _, name := range g.Group {
		if other := s.gangs[api.JobID(name.String())]; other == nil || !other.satisfied && !other.reached() {
			return false
		}
	}
	return true
}

// reached is true if the members that are placed are enough.
func (g *gang) reached() bool {
	return g.alive() > 0 && binding.ShortOf(g.JobInfo, &g.PodGroup.Spec, binding.Placed) == nil
}

// alive is how many members hold nodes.
func (g *gang) alive() int {
	return len(g.TaskStatusIndex[api.Bound]) + len(g.TaskStatusIndex[api.Running]) + len(g.TaskStatusIndex[api.Releasing])
}

// setMinimum sets how many members the session places the gang with at the least.
func (g *gang) setMinimum() {
	ready := g.ReadyTaskNum()
	switch {
	case g.satisfied:
		g.MinAvailable = min(g.minimum, ready)
		g.dropRoles()
	case len(g.TaskStatusIndex[api.Pending]) == 0:
	case g.MatchPolicy == gangs.OnlyWaiting:
		g.MinAvailable = g.minimum + ready
		g.addRoles()
	}
	if g.Mode == gangs.Strict && !g.satisfied {
		g.MinAvailable = max(g.MinAvailable, ready+g.waiting())
	}
}

// waiting is how many members wait for a node: all that have no gates left.
func (g *gang) waiting() (n int32) {
	for _, task := range g.TaskStatusIndex[api.Pending] {
		if !task.SchGated {
			n++
		}
	}
	return n
}

// dropRoles drops the minima of roles.
func (g *gang) dropRoles() { g.TaskMinAvailable, g.TaskMinAvailableTotal = map[string]int32{}, 0 }

// addRoles adds to the minima of roles those who are there already, who do not count.
func (g *gang) addRoles() {
	for status, tasks := range g.TaskStatusIndex {
		if !api.AllocatedStatus(status) && status != api.Succeeded {
			continue
		}
		for _, task := range tasks {
			if _, ok := g.TaskMinAvailable[task.TaskRole]; ok {
				g.TaskMinAvailable[task.TaskRole]++
				g.TaskMinAvailableTotal++
			}
		}
	}
}
