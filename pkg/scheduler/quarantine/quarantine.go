// SPDX-License-Identifier: Apache-2.0

package quarantine

import (
	"maps"
	"sync"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/snapshot"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/upstream"
)

// Reasons of events and conditions of quarantined objects.
const (
	InvalidResources = "InvalidResources"
	ObjectTooLarge   = "TooLarge"
	SchedulerPanic   = "SchedulerPanic"
)

// Quarantine holds the objects that sessions leave out. These objects have amounts that overflow, have too many parts
// (limits.go), or made cycles panic (bisector.go).
//
// Too large objects, negative amounts, and queues without a path to the root are detected in each snapshot. A gang with
// such a fault, or in such a queue, is not placed. It is left out of the session unless it already holds resources. A
// gang that holds resources stays, without the faulty amounts, so that its queue's sums are correct. If that gang is
// too large, its minResources are set to its held resources.
type Quarantine struct {
	mu       sync.Mutex
	bisector *bisector
	wrong    map[api.JobID]Verdict
	// paused are the gangs that are not placed during a search for an object that makes cycles panic. The search leaves
	// out other gangs that count in the sums of their queue, so these sums are incomplete.
	paused map[api.JobID]bool
}

// New returns an empty Quarantine.
func New() *Quarantine { return &Quarantine{bisector: newBisector(), wrong: map[api.JobID]Verdict{}} }

// Why returns the reason and the message of the gang's quarantine, and reports whether the gang is quarantined at all.
func (a *Quarantine) Why(gang api.JobID) (reason, message string, is bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if wrong, is := a.wrong[gang]; is {
		return wrong.Reason, wrong.Message, true
	}
	if held, is := a.bisector.quarantined[object{PodGroup, string(gang)}]; is {
		return SchedulerPanic, held.message, true
	}
	return "", "", false
}

// Verdict is the reason why an object is quarantined, with a message for users.
type Verdict struct{ Reason, Message string }

// Queues returns the verdict on each quarantined queue.
func (a *Quarantine) Queues() map[api.QueueID]Verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	why := map[api.QueueID]Verdict{}
	for it, held := range a.bisector.quarantined {
		if it.kind == queueObject {
			why[api.QueueID(it.name)] = Verdict{SchedulerPanic, held.message}
		}
	}
	return why
}

// Gangs returns the verdict on each quarantined gang.
func (a *Quarantine) Gangs() map[api.JobID]Verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	why := maps.Clone(a.wrong)
	for it, held := range a.bisector.quarantined {
		if it.kind == PodGroup {
			why[api.JobID(it.name)] = Verdict{SchedulerPanic, held.message}
		}
	}
	return why
}

// Readmit ends the quarantine of all objects that are quarantined because of a panic, and the search for further such
// objects.
func (a *Quarantine) Readmit() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bisector = newBisector()
}

// IsPaused reports whether the gang is not placed for now. The reason is that the search for an object that makes
// cycles panic leaves other gangs of this or related queues out of sessions.
func (a *Quarantine) IsPaused(gang api.JobID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.paused[gang]
}

// RemoveFrom removes the quarantined objects from the snapshot. It returns, by gang, the verdicts on faulty or too
// large gangs that are new or have changed since the last call. by has the copies of nodes and jobs in a session's
// snapshot; nil for any other snapshot.
func (a *Quarantine) RemoveFrom(snapshot *api.ClusterInfo, by *snapshot.Copies, now time.Time) (news map[api.JobID]Verdict) {
	wrong := checkObjects(snapshot, by)
	a.mu.Lock()
	before := a.wrong
	a.wrong = wrong
	a.paused = a.bisector.leaveOut(snapshot, now)
	a.mu.Unlock()
	news = map[api.JobID]Verdict{}
	for gang, why := range wrong {
		if before[gang] != why && !framework.IsDeletedJob(gang) {
			news[gang] = why
		}
	}
	return news
}

// CapMinResources handles gangs that are quarantined as too large, but stay in the snapshot because they hold
// resources. It sets their minResources to their held resources of known kinds. Otherwise the sums of their queue would
// contain all kinds that these gangs name. It must be called after the held resources are computed.
func (a *Quarantine) CapMinResources(snapshot *api.ClusterInfo) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var known resourceNames
	for gang, why := range a.wrong {
		if job := snapshot.Jobs[gang]; job != nil && why.Reason == ObjectTooLarge {
			if known == nil {
				known = knownResources(snapshot)
			}
			withKnownKinds(job, known)
			upstream.CapMinResources(job)
		}
	}
}

// Culprit is an object that is quarantined because cycles panicked. Message is the message of the panic for users.
type Culprit struct{ Kind, Name, Message string }

// Panicked processes a cycle that panicked. turn is the gang that was being scheduled; empty if there was none. what is
// the message of the panic. Panicked returns the objects that it quarantines. another reports whether the next session
// sees other objects.
func (a *Quarantine) Panicked(now time.Time, turn api.JobID, what string) (found []Culprit, another bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	items, another := a.bisector.panicked(now, turn, what)
	return a.culprits(items), another
}

// Succeeded processes a cycle that ended normally. It returns the objects that it quarantines. busy reports whether
// objects are quarantined or searched for.
func (a *Quarantine) Succeeded() (found []Culprit, busy bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	items, busy := a.bisector.succeeded()
	return a.culprits(items), busy
}

func (a *Quarantine) culprits(items []object) (all []Culprit) {
	for _, it := range items {
		if held, is := a.bisector.quarantined[it]; is {
			all = append(all, Culprit{it.kind, it.name, held.message})
		}
	}
	return all
}

// Searching reports whether a search for the object that makes cycles panic is running.
func (a *Quarantine) Searching() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bisector.searching()
}

// Counts returns the number of quarantined objects, by kind.
func (a *Quarantine) Counts() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	counts := map[string]int{PodGroup: 0, queueObject: 0, nodeObject: 0}
	for gang := range a.wrong {
		if !framework.IsDeletedJob(gang) {
			counts[PodGroup]++
		}
	}
	for it := range a.bisector.quarantined {
		counts[it.kind]++
	}
	return counts
}
