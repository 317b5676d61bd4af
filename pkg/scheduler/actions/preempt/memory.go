// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"hash/maphash"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
)

// memory keeps why gangs got no room.
type memory struct {
	// asked has the refusals of this session, by what the gangs ask for (preemption.demandKey). Room that a gang could get
	// never grows in a session, so a gang that asks for the same is not tried again. askedAlone has the same for jobs of one
	// pod, whose key is computed faster.
	asked      map[string]*refusal
	askedAlone map[aloneKey]*refusal
	// refused has the reasons by which arithmetic excludes that a gang gets room, by a hash of everything that this depends
	// on (preemption.fingerprint). former has those of the last session.
	refused, former map[uint64]string
	// excluded are the gangs that arithmetic excludes, and exclusions the reasons. These gangs are explained without computing
	// their fingerprints, as long as package snapshot gives their JobInfos to sessions.
	excluded   map[*api.JobInfo]*exclusion
	exclusions map[exclusionKey]*exclusion
	// victims are hashes of the pods on nodes of queues in this session. ofJobs are those of single jobs, and formerOfJobs those
	// of the last session.
	victims              map[api.QueueID]queueVictims
	ofJobs, formerOfJobs map[*api.JobInfo]jobVictims
	pace                 pace
}

// refusal is why a gang gets no room; why is empty if it gets some.
type refusal struct {
	why string
	// shared reports whether gangs that ask for the same are refused for the same reason in this session.
	shared bool
	// arithmetic reports whether arithmetic excludes that the gang gets room, and everything that this depends on can be
	// compared between sessions.
	arithmetic bool
	// ofPace reports whether the gang has no search in this session (pace.refuse). Others may have one.
	ofPace bool
}

// beginSession begins a session with these jobs. It drops the reasons that the last session did not use.
func (m *memory) beginSession(jobs map[api.JobID]*api.JobInfo) {
	m.pace.begin(jobs)
	m.asked, m.askedAlone, m.victims = map[string]*refusal{}, map[aloneKey]*refusal{}, map[api.QueueID]queueVictims{}
	m.former, m.refused = m.refused, map[uint64]string{}
	m.formerOfJobs, m.ofJobs = m.ofJobs, map[*api.JobInfo]jobVictims{}
	if m.excluded == nil {
		m.excluded, m.exclusions = map[*api.JobInfo]*exclusion{}, map[exclusionKey]*exclusion{}
	}
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
	return max(maphash.Comparable(p.run.CrossSession.Seed, [3]uint64{asks, p.victimsOf(r.Job.Queue), uint64(uint32(r.Job.Priority))}), 1)
}

// aloneKey is what a job of one pod asks for.
type aloneKey struct {
	queue                          api.QueueID
	role                           string
	class, roles                   int
	priority, needed, neededOfRole int32
}

// aloneKeyOf returns the key of a job of one pod. It returns false for other jobs, for a job with a topology or node groups, and
// if a plugin may decide by something else.
func (p *preemption) aloneKeyOf(r *state.Attempt) (aloneKey, bool) {
	job, task := r.Job, r.Pending.First()
	if len(job.Tasks) != 1 || r.Groups != nil || !p.asksByClass(r) {
		return aloneKey{}, false
	}
	return aloneKey{
		queue: job.Queue, role: task.TaskRole, class: p.run.Finder.Class(task).Number(), priority: job.Priority,
		needed: job.MinAvailable, neededOfRole: job.TaskMinAvailable[task.TaskRole], roles: len(job.TaskMinAvailable),
	}, true
}
