// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"hash/maphash"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
)

// memory keeps why gangs got no room.
type memory struct {
	// asked has the reasons of this session, by what the gangs ask for (preemption.demandKey). Room that a gang could get
	// never grows in a session, so a gang that asks for the same is not tried again.
	asked map[string]string
	// refused has the reasons by which arithmetic excludes that a gang gets room, by a hash of everything that this depends
	// on (preemption.fingerprint). former has those of the last session.
	refused, former map[uint64]string
	// victims are hashes of the pods on nodes of queues in this session.
	victims map[api.QueueID]victimsHash
}

// victimsHash is a hash of the pods on nodes of a queue. sent is the number of pods that were evicted before.
type victimsHash struct {
	hash uint64
	sent int
}

// beginSession drops the reasons that the last session did not use.
func (m *memory) beginSession() {
	m.asked, m.victims = map[string]string{}, map[api.QueueID]victimsHash{}
	m.former, m.refused = m.refused, map[uint64]string{}
}

// lookup returns why arithmetic excluded in this session or the last one that a gang with this fingerprint gets room; empty
// if that is not known.
func (m *memory) lookup(fingerprint uint64) string {
	why := m.refused[fingerprint]
	if why == "" {
		if why = m.former[fingerprint]; why != "" {
			m.refused[fingerprint] = why
		}
	}
	return why
}

// fingerprint returns a hash of everything that the result of arithmetic for the gang depends on, if plugins choose victims
// by its priority alone: what the gang asks for, the nodes, and the pods on nodes of its queue. It is 0 if a part of that
// cannot be compared between sessions.
func (p *preemption) fingerprint(r *state.Attempt) uint64 {
	asks := r.Fingerprint()
	if asks == 0 {
		return 0
	}
	victims, known := p.memory.victims[r.Job.Queue]
	if !known || victims.sent != len(p.sent) {
		victims = victimsHash{p.hashVictims(r.Job.Queue), len(p.sent)}
		p.memory.victims[r.Job.Queue] = victims
	}
	return max(maphash.Comparable(p.run.CrossSession.Seed, [3]uint64{asks, victims.hash, uint64(uint32(r.Job.Priority))}), 1)
}

// hashVictims returns a hash of everything that decides which of the queue's pods may be evicted together (unitsOf), beside
// the pods on nodes.
func (p *preemption) hashVictims(queue api.QueueID) (sum uint64) {
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
	seed := p.run.CrossSession.Seed
	for _, job := range p.candidates.jobsFor(queue) {
		of := minimum{job: job.UID, needed: job.MinAvailable, priority: job.Priority, ready: job.ReadyTaskNum(), subGroups: job.ContainsSubJobPolicy()}
		sum += maphash.Comparable(seed, of)
		for role, needed := range job.TaskMinAvailable {
			sum += maphash.Comparable(seed, minimum{job: job.UID, role: role, needed: needed})
		}
		for _, status := range []api.TaskStatus{api.Running, api.Bound} {
			for uid, task := range job.TaskStatusIndex[status] {
				sum += maphash.Comparable(seed, victim{uid, task.Preemptable})
			}
		}
	}
	return sum
}
