// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"hash/maphash"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/packing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Memory is what the action remembers from one session to the next: what would be found again, if the session had the steps
// for it. What a session has no use for is forgotten after the next.
type Memory struct {
	// Seed is of all hashes.
	Seed maphash.Seed
	// Tasks is what the finder remembers.
	Tasks *feasible.Memory
	// solutions are of packing problems, which depend on nothing but their numbers, by a hash of these; former are those of the
	// session before.
	solutions, former map[uint64]Solution
	// Packing is the budget of searches for a plan, Orders that of trials of other orders.
	Packing, Orders Budget
	// Gangs are why gangs fit nowhere, by the fingerprint of what decides on them, and formerGangs those of the session before.
	Gangs, formerGangs map[uint64]Explanation
	// Units are the units that fit nowhere, by name, and formerUnits those of the session before.
	Units, FormerUnits map[string]UnitWaits
	// Nodes are the fingerprints of nodes.
	Nodes Nodes
	// Holds bound how long gangs hold idle resources while they wait for others.
	Holds Holds
}

// Explanation is why a gang was not placed.
type Explanation struct {
	Fingerprint uint64
	Explanation framework.GangExplanation
	Wait        framework.Wait
	// Tasks is the message of each task, in task order, of a gang that may lie anywhere; empty for tasks that have none.
	Tasks []string
}

// UnitWaits is why a unit of gangs was not placed: the wait of each of its gangs, and the explanation of the one that found no room.
type UnitWaits struct {
	Fingerprint uint64
	Waits       map[api.JobID]framework.Wait
	Failed      api.JobID
	Explained   framework.GangExplanation
}

// New returns an empty memory.
func New() *Memory {
	tasks := feasible.NewMemory()
	m := &Memory{Seed: tasks.Seed, Tasks: tasks}
	m.BeginSession()
	return m
}

// BeginSession forgets what the session before had no use for.
func (m *Memory) BeginSession() {
	m.former, m.solutions = m.solutions, map[uint64]Solution{}
	m.Packing.beginSession(sessionPackingSteps)
	m.Orders.beginSession(sessionLooks)
	m.formerGangs, m.Gangs = m.Gangs, map[uint64]Explanation{}
	m.FormerUnits, m.Units = m.Units, map[string]UnitWaits{}
	m.Nodes.beginSession()
	m.Holds.beginSession(time.Now())
}

// KnownExplanation returns why a gang of the fingerprint did not fit, in this session or in the one before.
func (m *Memory) KnownExplanation(fingerprint uint64) (Explanation, bool) {
	found, ok := m.Gangs[fingerprint]
	if !ok {
		if found, ok = m.formerGangs[fingerprint]; ok {
			m.Gangs[fingerprint] = found
		}
	}
	return found, ok
}

// Solution is the answer to a packing problem, the plan if it fits, and how many steps the search might have taken.
type Solution struct {
	packing.Answer
	Plan  packing.Plan
	steps int
}

// known returns the solution with the key, of this session or of the one before.
func (m *Memory) known(key uint64) (Solution, bool) {
	found, ok := m.solutions[key]
	if !ok {
		if found, ok = m.former[key]; ok {
			m.solutions[key] = found
		}
	}
	return found, ok
}

// Refute looks for a reason why the problem cannot be solved.
func (m *Memory) Refute(problem *packing.Problem) packing.Answer {
	key := maphash.String(m.Seed, "refute "+problem.Key())
	found, ok := m.known(key)
	if !ok {
		found.Answer, _ = problem.Refute()
		m.solutions[key] = found
	}
	return found.Answer
}

// Solve looks for a plan, for a search that is one of so many of its job. The problem's nodes are in the order of their keys, so
// that problems of one key have one plan. It returns false where the session's steps did not suffice to look everywhere.
func (m *Memory) Solve(problem *packing.Problem, of Search, searches int) (Solution, bool) {
	key := maphash.String(m.Seed, "solve "+problem.Key())
	found, ok := m.known(key)
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
		m.Packing.Wait(of)
	}
	return found, found.final()
}

// Way is a way to look for room for tasks.
type Way string

// The ways are the first orders of the tasks, further ones, and all that are known.
const (
	FirstOrders Way = "first"
	OtherOrders Way = "others"
	AnyWay      Way = "any"
)

// IsVain is true if the way has led nowhere, for what the key names.
func (m *Memory) IsVain(in Way, key string) bool {
	_, vain := m.known(m.vainKey(in, key))
	return vain
}

// NoteVain notes that the way leads nowhere.
func (m *Memory) NoteVain(in Way, key string) { m.solutions[m.vainKey(in, key)] = Solution{} }

func (m *Memory) vainKey(in Way, key string) uint64 {
	return maphash.String(m.Seed, string(in)+" vain "+key)
}

// final is true if more steps would not be granted, or are not needed.
func (s *Solution) final() bool { return s.Answer != packing.Unknown || s.steps >= maxPackingSteps }
