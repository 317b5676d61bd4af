// SPDX-License-Identifier: Apache-2.0

package crosssession

import (
	"hash/maphash"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/packing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Cache keeps results from one session to the next. A session with enough steps would compute the same results again.
// Entries that a session does not use are dropped after the next.
type Cache struct {
	// Seed is the seed of all hashes.
	Seed maphash.Seed
	// Tasks is the cache of package feasible.
	Tasks *feasible.FactCache
	// solutions are the answers to packing problems, by a hash of the problem's numbers; former are the answers of the last
	// session.
	solutions, former map[uint64]Solution
	// Packing is the budget of searches for a plan. Orders is that of trials of other orders.
	Packing, Orders Budget
	// Gangs are the reasons why gangs fit nowhere, by the fingerprint of everything that decides on them. formerGangs
	// are from the last session.
	Gangs, formerGangs map[uint64]Explanation
	// GangGroups are the gang groups that fit nowhere, by name. FormerGangGroups are from the last session.
	GangGroups, FormerGangGroups map[string]GangGroupReasons
	// Nodes are the fingerprints of nodes.
	Nodes Nodes
	// Holds bound how long gangs hold idle resources while they wait for others.
	Holds Holds
}

// Explanation holds the reasons why a gang was not placed.
type Explanation struct {
	Fingerprint   uint64
	Explanation   framework.GangExplanation
	PendingReason framework.PendingReason
	// Tasks is the message of each task, in task order, for a gang that may be placed anywhere; empty for tasks without
	// a message.
	Tasks []string
}

// GangGroupReasons holds the reasons why a gang group was not placed: the wait of each gang, and the explanation of the
// gang that found no room.
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

// BeginSession drops entries that the last session did not use.
func (m *Cache) BeginSession() {
	m.former, m.solutions = m.solutions, map[uint64]Solution{}
	m.Packing.beginSession(sessionPackingSteps)
	m.Orders.beginSession(sessionLooks)
	m.formerGangs, m.Gangs = m.Gangs, map[uint64]Explanation{}
	m.FormerGangGroups, m.GangGroups = m.GangGroups, map[string]GangGroupReasons{}
	m.Nodes.beginSession()
	m.Holds.beginSession(time.Now())
}

// CachedExplanation returns why a gang with the fingerprint did not fit in this session or the last one.
func (m *Cache) CachedExplanation(fingerprint uint64) (Explanation, bool) {
	found, ok := m.Gangs[fingerprint]
	if !ok {
		if found, ok = m.formerGangs[fingerprint]; ok {
			m.Gangs[fingerprint] = found
		}
	}
	return found, ok
}

// Solution is the answer to a packing problem, the plan if there is one, and how many steps the search was allowed.
type Solution struct {
	packing.Answer
	Plan  packing.Plan
	steps int
}

// known returns the solution with the key, from this session or the last one.
func (m *Cache) lookup(key uint64) (Solution, bool) {
	found, ok := m.solutions[key]
	if !ok {
		if found, ok = m.former[key]; ok {
			m.solutions[key] = found
		}
	}
	return found, ok
}

// Refute looks for a proof that the problem cannot be solved.
func (m *Cache) Refute(problem *packing.Problem) packing.Answer {
	key := maphash.String(m.Seed, "refute "+problem.Key())
	found, ok := m.lookup(key)
	if !ok {
		found.Answer, _ = problem.Refute()
		m.solutions[key] = found
	}
	return found.Answer
}

// Solve looks for a plan. of identifies the search, and searches is how many searches its job makes. The problem's
// nodes are in the order of their keys, so that problems with the same key have the same plan. It returns false if the
// session's steps did not suffice for a complete search.
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

// Way is a strategy to look for room for tasks.
type Way string

// The ways: the first orders of the tasks, further orders, and all that are known.
const (
	FirstOrders Way = "first"
	OtherOrders Way = "others"
	AnyWay      Way = "any"
)

// HasFailed reports whether the way is known to fail for the key.
func (m *Cache) HasFailed(in Way, key string) bool {
	_, useless := m.lookup(m.failureKey(in, key))
	return useless
}

// RecordFailed records that the way fails.
func (m *Cache) RecordFailed(in Way, key string) { m.solutions[m.failureKey(in, key)] = Solution{} }

func (m *Cache) failureKey(in Way, key string) uint64 {
	return maphash.String(m.Seed, string(in)+" vain "+key)
}

// final reports whether another search could not improve the answer: it is known, or no more steps would be granted.
func (s *Solution) final() bool { return s.Answer != packing.Unknown || s.steps >= maxPackingSteps }
