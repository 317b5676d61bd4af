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

// Reasons of events and conditions of what is set aside.
const (
	InvalidResources = "InvalidResources"
	ObjectTooLarge   = "TooLarge"
	SchedulerPanic   = "SchedulerPanic"
)

// Aside is what sessions do without, so that one object stops nobody else: numbers that cannot be reckoned with, objects
// of which there is too much (toolarge.go), and objects during whose turn, or with which, cycles panicked (hunt.go).
//
// Objects too large, numbers below 0, and queues from which no way leads to the root, are looked for in each snapshot. A gang that
// has such, or whose queue has, is not placed: it is left out, but when it holds resources already it stays without the numbers, and
// with what it holds as its minResources when it is too large, so that its queue's books are right.
type Aside struct {
	mu    sync.Mutex
	hunt  *hunt
	wrong map[api.JobID]Verdict
	// paused are the gangs that are not placed because part of their queue's books is left out by the hunt.
	paused map[api.JobID]bool
}

// New makes an Aside of nothing.
func New() *Aside { return &Aside{hunt: newHunt(), wrong: map[api.JobID]Verdict{}} }

// Why says why the gang is set aside, if it is.
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

// Verdict is why something is set aside.
type Verdict struct{ Reason, Message string }

// Gangs says of each gang that is set aside why.
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

// Forgive lets everything back in that is set aside because of a panic.
func (a *Aside) Forgive() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hunt = newHunt()
}

// Pausing is true if the gang's queue is not seen as a whole.
func (a *Aside) Pausing(gang api.JobID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.paused[gang]
}

// TakeFrom takes from the snapshot what sessions do without, and returns what is wrong by gang, where that is new.
func (a *Aside) TakeFrom(snapshot *api.ClusterInfo, by *snapshot.Copies, now time.Time) (news map[api.JobID]Verdict) {
	wrong := unreckonable(snapshot, by)
	a.mu.Lock()
	before := a.wrong
	a.wrong = wrong
	a.paused = a.hunt.leaveOut(snapshot, now)
	a.mu.Unlock()
	news = map[api.JobID]Verdict{}
	for gang, why := range wrong {
		if before[gang] != why {
			news[gang] = why
		}
	}
	return news
}

// ReckonWithHoldings has gangs that are set aside as too large, and stay because they hold resources, count as asking for what
// they hold of the kinds that there are: the queue's books would have all kinds of resources that they name. It is called once it
// is known what they hold.
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

// Held is an object that is set aside because cycles panicked, and the panic as people are told it.
type Held struct{ Kind, Name, Message string }

// Panicked learns from a cycle that panicked, as hunt.panicked does, and returns what is set aside for it.
func (a *Aside) Panicked(now time.Time, turn api.JobID, what string) (found []Held, another bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	items, another := a.hunt.panicked(now, turn, what)
	return a.held(items), another
}

// Succeeded learns from a cycle that came to its end. It returns what is set aside for good reason now, and says whether objects
// are set aside or looked for.
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

// Searching is true if the object is searched for that makes cycles panic.
func (a *Aside) Searching() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.hunt.searching()
}

// Counts counts what is set aside, by kind of object.
func (a *Aside) Counts() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	counts := map[string]int{PodGroup: len(a.wrong), queueItem: 0, nodeItem: 0}
	for it := range a.hunt.held {
		counts[it.kind]++
	}
	return counts
}
