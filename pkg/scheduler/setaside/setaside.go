// SPDX-License-Identifier: Apache-2.0

package setaside

import (
	"maps"
	"sync"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/snapshot"
)

// Reasons of events and conditions of quarantined objects.
const (
	InvalidResources = "InvalidResources"
	ObjectTooLarge   = "TooLarge"
	SchedulerPanic   = "SchedulerPanic"
)

// Aside is the quarantine. It holds amounts that overflow, objects with too many parts (toolarge.go), and objects that
// made cycles panic (hunt.go).
//
// Too large objects, negative amounts, and queues without a path to the root are detected in each snapshot. A gang with
// such a fault, or in such a queue, is not placed. It is left out of the session unless it already holds resources.
// Then it stays, without the faulty amounts, so that its queue's sums are correct; if it is too large, its minResources
// are set to its held resources.
type Aside struct {
	mu    sync.Mutex
	hunt  *hunt
	wrong map[api.JobID]Verdict
	// paused are the gangs that are not placed because the search leaves out part of their queue's sums.
	paused map[api.JobID]bool
}

// New returns an empty Aside.
func New() *Aside { return &Aside{hunt: newHunt(), wrong: map[api.JobID]Verdict{}} }

// Why returns why the gang is quarantined, if it is.
func (a *Aside) Why(gang api.JobID) (reason, message string, is bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if wrong, is := a.wrong[gang]; is {
		return wrong.Reason, wrong.Message, true
	}
	if held, is := a.hunt.held[item{PodGroup, string(gang)}]; is {
		return SchedulerPanic, held.message, true
	}
	return "", "", false
}

// Verdict is why an object is quarantined.
type Verdict struct{ Reason, Message string }

// Gangs returns the verdict on each quarantined gang.
func (a *Aside) Gangs() map[api.JobID]Verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	why := maps.Clone(a.wrong)
	for it, held := range a.hunt.held {
		if it.kind == PodGroup {
			why[api.JobID(it.name)] = Verdict{SchedulerPanic, held.message}
		}
	}
	return why
}

// Forgive readmits all objects that are quarantined because of a panic.
func (a *Aside) Forgive() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hunt = newHunt()
}

// Pausing reports whether sessions see only part of the gang's queue.
func (a *Aside) Pausing(gang api.JobID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.paused[gang]
}

// TakeFrom removes the quarantined objects from the snapshot, and returns new verdicts by gang.
func (a *Aside) TakeFrom(snapshot *api.ClusterInfo, by *snapshot.Copies, now time.Time) (news map[api.JobID]Verdict) {
	wrong := unreckonable(snapshot, by)
	a.mu.Lock()
	before := a.wrong
	a.wrong = wrong
	a.paused = a.hunt.leaveOut(snapshot, now)
	a.mu.Unlock()
	news = map[api.JobID]Verdict{}
	for gang, why := range wrong {
		if before[gang] != why && !framework.IsDeletedJob(gang) {
			news[gang] = why
		}
	}
	return news
}

// ReckonWithHoldings sets the minResources of gangs that are quarantined as too large, and stay because they hold resources, to
// the known kinds of these resources. Otherwise their queue's sums would contain all kinds that they name. It is called once the
// held resources are known.
func (a *Aside) ReckonWithHoldings(snapshot *api.ClusterInfo) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var known kinds
	for gang, why := range a.wrong {
		if job := snapshot.Jobs[gang]; job != nil && why.Reason == ObjectTooLarge {
			if known == nil {
				known = kindsOf(snapshot)
			}
			withKnownKinds(job, known)
			framework.ReckonWithHoldings(job)
		}
	}
}

// Held is an object that is quarantined because cycles panicked, with the message of the panic for users.
type Held struct{ Kind, Name, Message string }

// Panicked processes a cycle that panicked, as hunt.panicked does, and returns the objects that it quarantines.
func (a *Aside) Panicked(now time.Time, turn api.JobID, what string) (found []Held, another bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	items, another := a.hunt.panicked(now, turn, what)
	return a.held(items), another
}

// Succeeded processes a cycle that ended normally. It returns the objects that it quarantines, and reports whether
// objects are quarantined or searched for.
func (a *Aside) Succeeded() (found []Held, busy bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	items, busy := a.hunt.succeeded()
	return a.held(items), busy
}

func (a *Aside) held(items []item) (all []Held) {
	for _, it := range items {
		if held, is := a.hunt.held[it]; is {
			all = append(all, Held{it.kind, it.name, held.message})
		}
	}
	return all
}

// Searching reports whether the object that makes cycles panic is being searched for.
func (a *Aside) Searching() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.hunt.searching()
}

// Counts returns the number of quarantined objects, by kind.
func (a *Aside) Counts() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	counts := map[string]int{PodGroup: 0, queueItem: 0, nodeItem: 0}
	for gang := range a.wrong {
		if !framework.IsDeletedJob(gang) {
			counts[PodGroup]++
		}
	}
	for it := range a.hunt.held {
		counts[it.kind]++
	}
	return counts
}
