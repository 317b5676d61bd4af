// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"hash/maphash"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// queueVictims is a hash of the pods on nodes of a queue. sent is the number of pods that were evicted before.
type queueVictims struct {
	hash uint64
	sent int
}

// jobVictims is a hash of the pods on nodes of a job.
type jobVictims struct {
	of   victimsState
	hash uint64
}

// victimsState is the part of a job with pods on nodes that a session may change. Tasks are counted, not compared: a session
// evicts running and bound tasks, and may undo that, but adds none.
type victimsState struct {
	jobState
	ready          int32
	running, bound int
}

// victimsOf returns a hash of everything that decides which of the queue's pods may be evicted together (unitsOf), beside the
// pods on nodes.
func (p *preemption) victimsOf(queue api.QueueID) uint64 {
	m := p.memory
	known, ok := m.victims[queue]
	if ok && known.sent == len(p.sent) {
		return known.hash
	}
	known = queueVictims{sent: len(p.sent)}
	for _, job := range p.candidates.jobsFor(queue) {
		known.hash += m.victimsOfJob(p.run.CrossSession.Seed, job)
	}
	m.victims[queue] = known
	return known.hash
}

// victimsOfJob returns the part of victimsOf for one job.
func (m *memory) victimsOfJob(seed maphash.Seed, job *api.JobInfo) uint64 {
	state := victimsState{stateOf(job), job.ReadyTaskNum(), len(job.TaskStatusIndex[api.Running]), len(job.TaskStatusIndex[api.Bound])}
	known, ok := m.ofJobs[job]
	if !ok {
		known, ok = m.formerOfJobs[job]
	}
	if !ok || known.of != state {
		known = jobVictims{state, hashVictims(seed, job)}
	}
	m.ofJobs[job] = known
	return known.hash
}

// hashVictims computes the hash of the job's pods on nodes, and of the minima that keep some of them.
func hashVictims(seed maphash.Seed, job *api.JobInfo) uint64 {
	type victim struct {
		task        api.TaskID
		preemptable bool
	}
	type minimum struct {
		job                     api.JobID
		role                    string
		needed, ready, priority int32
		subGroups               bool
	}
	sum := maphash.Comparable(seed, minimum{
		job: job.UID, needed: job.MinAvailable, priority: job.Priority, ready: job.ReadyTaskNum(), subGroups: job.ContainsSubJobPolicy(),
	})
	for role, needed := range job.TaskMinAvailable {
		sum += maphash.Comparable(seed, minimum{job: job.UID, role: role, needed: needed})
	}
	for _, status := range []api.TaskStatus{api.Running, api.Bound} {
		for uid, task := range job.TaskStatusIndex[status] {
			sum += maphash.Comparable(seed, victim{uid, task.Preemptable})
		}
	}
	return sum
}
