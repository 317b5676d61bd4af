// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"hash/maphash"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Thousands of gangs may wait that can get no room. While nothing changes that could give them room, their reasons are repeated
// without looking at each gang again.

// An exclusion is the reason why some gangs can get no room, by arithmetic. All tasks of these gangs are pending, and they have no
// node groups. So only a change of a gang's job, or of something that world covers, can give the gang room. Other conditions, such
// as a pause or a gang group, can only take away room.
type exclusion struct {
	exclusionKey
	// gangs are the gangs that have not changed since the last session.
	gangs []*api.JobInfo
}

// exclusionKey is what excluded gangs have in common. world is a hash of everything beside the job (preemption.worldOf).
type exclusionKey struct {
	job   jobState
	world uint64
	why   string
}

// jobState is the part of a job, without its tasks, that plugins may have changed before the action runs. Package snapshot gives
// the same JobInfo to the next session only if the rest is unchanged.
type jobState struct {
	queue                           api.QueueID
	priority, needed, neededByRoles int32
	roles                           int
	admitted                        bool
}

func stateOf(job *api.JobInfo) jobState {
	return jobState{
		queue: job.Queue, priority: job.Priority, needed: job.MinAvailable, neededByRoles: job.TaskMinAvailableTotal, roles: len(job.TaskMinAvailable),
		admitted: !job.IsPending(),
	}
}

// allPending reports whether all tasks of the job are pending.
func allPending(job *api.JobInfo) bool {
	return len(job.TaskStatusIndex[api.Pending]) == len(job.Tasks)
}

// noteExcluded records that arithmetic excludes the gang, if later sessions can find out whether it still does.
func (p *preemption) noteExcluded(r *state.Attempt, found *refusal) {
	if !found.arithmetic || r.Groups != nil || len(p.together) > 1 {
		return
	}
	job, m := r.Job, p.memory
	if !allPending(job) || p.hasOwnFilters(job) {
		return
	}
	key := exclusionKey{stateOf(job), p.worldOf(job.Queue), found.why}
	if m.exclusions[key] == nil {
		m.exclusions[key] = &exclusion{exclusionKey: key}
	}
	m.excluded[job] = m.exclusions[key]
}

// hasOwnFilters reports whether plugins of this project filter nodes for a pod of the job, by state that world does not cover.
func (p *preemption) hasOwnFilters(job *api.JobInfo) bool {
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if len(p.run.Finder.OwnFilters(task)) > 0 {
			return true
		}
	}
	return false
}

// divide divides the session's jobs into the gangs that arithmetic excluded in the last session and that have not changed
// since (exclusion.gangs), and all others, which it returns in no order.
func (m *memory) divide(ssn *framework.Session) (others []*api.JobInfo) {
	for _, e := range m.exclusions {
		clear(e.gangs) // so that no JobInfo of an earlier session is kept in memory
		e.gangs = e.gangs[:0]
	}
	unchanged := 0
	for id, job := range ssn.Jobs {
		e := m.excluded[job]
		if e == nil || e.job != stateOf(job) || ssn.TouchedJob(id) && !allPending(job) {
			others = append(others, job)
			continue
		}
		e.gangs = append(e.gangs, job)
		unchanged++
	}
	if unchanged < len(m.excluded) {
		m.forgetChanged()
	}
	return others
}

// forgetChanged forgets the excluded gangs that have changed.
func (m *memory) forgetChanged() {
	m.excluded = map[*api.JobInfo]*exclusion{}
	for key, e := range m.exclusions {
		if len(e.gangs) == 0 {
			delete(m.exclusions, key)
		}
		for _, job := range e.gangs {
			m.excluded[job] = e
		}
	}
}

// explainExcluded explains the gangs that arithmetic excluded in the last session, if it still excludes them. It returns the
// other gangs.
func (p *preemption) explainExcluded() (others []*api.JobInfo) {
	m := p.memory
	for key, e := range m.exclusions {
		if p.ssn.Queues[key.job.queue] != nil && key.world == p.worldOf(key.job.queue) {
			for _, job := range e.gangs {
				p.explain(job, key.why)
			}
			continue
		}
		others = append(others, e.gangs...)
		delete(m.exclusions, key)
		for _, job := range e.gangs {
			delete(m.excluded, job)
		}
	}
	return others
}

// worldOf returns a hash of everything beside a gang of the queue that arithmetic for the gang depends on: the conf, the nodes,
// and the pods on nodes of its queue.
func (p *preemption) worldOf(queue api.QueueID) uint64 {
	prints := p.run.Prints
	return max(maphash.Comparable(p.run.CrossSession.Seed, [3]uint64{prints.OfSession(), prints.OfNodes(), p.victimsOf(queue)}), 1)
}
