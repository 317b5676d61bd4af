// SPDX-License-Identifier: Apache-2.0

package crosssession

import (
	"hash/maphash"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/packing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Cache keeps results of allocate from one session to the next. Except for last, each result is the one that a session
// would compute again if its budgets of steps were large enough. An entry that a session does not use is dropped when
// the next session begins.
type Cache struct {
	// Seed is the seed of all hashes that are compared between sessions.
	Seed maphash.Seed
	// Tasks caches data about tasks for package feasible, such as the keys by which tasks are divided into task
	// classes.
	Tasks *feasible.FactCache
	// solutions are the answers to packing problems, by a hash of the whole problem. They also have an entry without an
	// answer for each search strategy that could not place some tasks (RecordFailed). All were found or used in this
	// session. former are the solutions of the last session.
	solutions, former map[uint64]Solution
	// Packing is the budget of searches for packing plans. Orders is the budget of further trials after a first trial of
	// a gang has failed, such as trials of other orders of its tasks.
	Packing, Orders Budget
	// Turns limits, for each namespace, the time of failed attempts to place gangs.
	Turns Turns
	// Gangs are the reasons why gangs fit nowhere, by the fingerprint of everything on which the result depends.
	// formerGangs are the reasons of the last session.
	Gangs, formerGangs map[uint64]Explanation
	// last is why each gang was not placed when it was last tried. formerLast are the reasons that the last session used.
	last, formerLast map[gangKey]Explanation
	// GangGroups are the reasons why gang groups fit nowhere, by the gang group's ID. FormerGangGroups are the reasons
	// of the last session.
	GangGroups, FormerGangGroups map[string]GangGroupReasons
	// Nodes keeps the fingerprints of nodes, which are hashes of their state.
	Nodes Nodes
	// Holds limits how long gangs hold idle resources while some of their members wait for resources to be released.
	Holds Holds
}

// Explanation holds the reasons why a gang was not placed.
type Explanation struct {
	Fingerprint   uint64
	Explanation   framework.GangExplanation
	PendingReason framework.PendingReason
	// Tasks is, for a gang that may be placed on any node, the message of each of its tasks, in task order; empty for a
	// task without a message.
	Tasks []string
}

// GangGroupReasons holds the reasons why a gang group was not placed: the pending reason of each gang, and the gang that
// found no room (Failed) with its explanation (Explained).
type GangGroupReasons struct {
	Fingerprint uint64
	Reasons     map[api.JobID]framework.PendingReason
	Failed      api.JobID
	Explained   framework.GangExplanation
}

// New returns an empty cache.
func New() *Cache {
	tasks := feasible.NewFactCache()
	m := &Cache{Seed: tasks.Seed, Tasks: tasks}
	m.BeginSession()
	return m
}

// BeginSession starts a session: it drops entries that the last session did not use, and refills the budgets.
func (m *Cache) BeginSession() {
	m.former, m.solutions = m.solutions, map[uint64]Solution{}
	m.Packing.beginSession(sessionPackingSteps)
	m.Orders.beginSession(sessionLooks)
	m.formerLast, m.last = m.last, map[gangKey]Explanation{}
	m.formerGangs, m.Gangs = m.Gangs, map[uint64]Explanation{}
	m.FormerGangGroups, m.GangGroups = m.GangGroups, map[string]GangGroupReasons{}
	m.Nodes.beginSession()
	m.Holds.beginSession(time.Now())
}

// HasExplanations reports whether CachedExplanation may return true for some gang.
func (m *Cache) HasExplanations() bool { return len(m.Gangs)+len(m.formerGangs) > 0 }

// CachedExplanation returns why a gang with this fingerprint did not fit in this session or in the last one; false if
// the cache has no explanation for the fingerprint.
func (m *Cache) CachedExplanation(fingerprint uint64) (Explanation, bool) {
	found, ok := m.Gangs[fingerprint]
	if !ok {
		if found, ok = m.formerGangs[fingerprint]; ok {
			m.Gangs[fingerprint] = found
		}
	}
	return found, ok
}

// gangKey identifies a gang. A gang that is created again with the same name is another gang.
type gangKey struct {
	job      api.JobID
	podGroup types.UID
}

func keyOf(job *api.JobInfo) gangKey { return gangKey{job.UID, job.PodGroup.UID} }

// LastExplanation returns why the gang was not placed when it was last tried; false if it was not tried yet.
func (m *Cache) LastExplanation(job *api.JobInfo) (Explanation, bool) {
	found, ok := m.last[keyOf(job)]
	if !ok {
		found, ok = m.formerLast[keyOf(job)]
	}
	return found, ok
}

// KeepLastExplanation keeps why the gang was not placed when it was last tried, until the end of the next session.
func (m *Cache) KeepLastExplanation(job *api.JobInfo, found Explanation) { m.last[keyOf(job)] = found }

// Solution is the answer to a packing problem, with the packing plan if one was found. steps is the number of steps
// that the search for the plan was allowed to take.
type Solution struct {
	packing.Answer
	Plan  packing.Plan
	steps int
}

// lookup returns the solution with the key, from this session or the last one. The key is a hash of a packing problem,
// or of a search strategy with the tasks and nodes for which it failed.
func (m *Cache) lookup(key uint64) (Solution, bool) {
	found, ok := m.solutions[key]
	if !ok {
		if found, ok = m.former[key]; ok {
			m.solutions[key] = found
		}
	}
	return found, ok
}

// Refute looks for a proof that the problem cannot be solved, first in the cache. It returns packing.Impossible if it
// finds a proof.
func (m *Cache) Refute(problem *packing.Problem) packing.Answer {
	key := maphash.String(m.Seed, "refute "+problem.Key())
	found, ok := m.lookup(key)
	if !ok {
		found.Answer, _ = problem.Refute()
		m.solutions[key] = found
	}
	return found.Answer
}

// Solve looks for a packing plan for the problem, first in the cache. The parameter of identifies the search. searches
// is how many searches the job still has to make: they share the steps that the budget has left in this session. The
// problem's nodes must be sorted by packing.Node.Key. A plan is then valid for each problem that differs only in the
// order of its nodes. Solve returns false if the session's steps did not suffice for a complete search.
func (m *Cache) Solve(problem *packing.Problem, of Search, searches int) (Solution, bool) {
	key := maphash.String(m.Seed, "solve "+problem.Key())
	found, ok := m.lookup(key)
	if ok && found.final() {
		m.Packing.Finish(of)
		return found, true
	}
	if steps := m.Packing.fairShare(of, searches); steps > found.steps {
		plan, answer, used := problem.Solve(steps)
		m.Packing.Left -= used
		found = Solution{answer, plan, steps}
		m.solutions[key] = found
	}
	if !found.final() {
		m.Packing.Enqueue(of)
	}
	return found, found.final()
}

// Way names a search strategy: a way to look for room for tasks.
type Way string

// FirstOrders is the way that places the tasks by rank, and then the largest first. OtherOrders is the way that places
// them in other orders. AnyWay stands for all ways that are tried.
const (
	FirstOrders Way = "first"
	OtherOrders Way = "others"
	AnyWay      Way = "any"
)

// HasFailed reports whether RecordFailed recorded, in this session or the last one, that the search strategy cannot
// place the tasks on the nodes that the key describes.
func (m *Cache) HasFailed(in Way, key string) bool {
	_, useless := m.lookup(m.failureKey(in, key))
	return useless
}

// RecordFailed records that the search strategy cannot place the tasks on the nodes that the key describes.
func (m *Cache) RecordFailed(in Way, key string) { m.solutions[m.failureKey(in, key)] = Solution{} }

func (m *Cache) failureKey(in Way, key string) uint64 {
	return maphash.String(m.Seed, string(in)+" vain "+key)
}

// final reports whether a further search for a packing plan cannot improve the solution. Either its answer is known, or
// the search that found it had as many steps as a search can get.
func (s *Solution) final() bool { return s.Answer != packing.Unknown || s.steps >= maxPackingSteps }
