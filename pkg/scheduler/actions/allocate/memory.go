// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"hash/maphash"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/packing"
)

const (
	// maxPackingSteps bounds a search for a plan: looks at a class of tasks on a node. It takes about 150 ms.
	maxPackingSteps = 1_500_000
	// sessionPackingSteps bounds all of them in a session (turns.go).
	sessionPackingSteps = 2_000_000
	// sessionLooks bounds what trials of other orders may take in a session: each task that is placed is a look at a node for each
	// class. It takes about 200 ms.
	sessionLooks = 3 * maxFurtherLooks
)

// memory is what the action remembers from one session to the next: what would be found again, if the session had the steps
// for it. What a session has no use for is forgotten after the next.
type memory struct {
	seed maphash.Seed
	// tasks is what the finder remembers.
	tasks *feasible.Memory
	// solutions are of packing problems, which depend on nothing but their numbers, by a hash of these; former are those of the
	// session before.
	solutions, former map[uint64]solution
	packing, orders   turns
	// gangs are why gangs fit nowhere, by the fingerprint of what decides on them, and formerGangs those of the session before.
	gangs, formerGangs map[uint64]carriedExplanation
	// units are the units that fit nowhere, by name, and formerUnits those of the session before.
	units, formerUnits map[string]carriedUnit
	nodes              nodeMemory
}

func newMemory() *memory {
	tasks := feasible.NewMemory()
	m := &memory{seed: tasks.Seed, tasks: tasks}
	m.beginSession()
	return m
}

// beginSession forgets what the session before had no use for.
func (m *memory) beginSession() {
	m.former, m.solutions = m.solutions, map[uint64]solution{}
	m.packing.beginSession(sessionPackingSteps)
	m.orders.beginSession(sessionLooks)
	m.formerGangs, m.gangs = m.gangs, map[uint64]carriedExplanation{}
	m.formerUnits, m.units = m.units, map[string]carriedUnit{}
	m.nodes.beginSession()
}

// reusable returns why a gang of the fingerprint did not fit, in this session or in the one before.
func (m *memory) reusable(fingerprint uint64) (carriedExplanation, bool) {
	found, ok := m.gangs[fingerprint]
	if !ok {
		if found, ok = m.formerGangs[fingerprint]; ok {
			m.gangs[fingerprint] = found
		}
	}
	return found, ok
}

// solution is the answer to a packing problem, the plan if it fits, and how many steps the search might have taken.
type solution struct {
	packing.Answer
	plan  packing.Plan
	steps int
}

// known returns the solution with the key, of this session or of the one before.
func (m *memory) known(key uint64) (solution, bool) {
	found, ok := m.solutions[key]
	if !ok {
		if found, ok = m.former[key]; ok {
			m.solutions[key] = found
		}
	}
	return found, ok
}

// refute looks for a reason why the problem cannot be solved.
func (m *memory) refute(problem *packing.Problem) packing.Answer {
	key := maphash.String(m.seed, "refute "+problem.Key())
	found, ok := m.known(key)
	if !ok {
		found.Answer, _ = problem.Refute()
		m.solutions[key] = found
	}
	return found.Answer
}

// solve looks for a plan, for a search that is one of so many of its job. The problem's nodes are in the order of their keys, so
// that problems of one key have one plan. It returns false where the session's steps did not suffice to look everywhere.
func (m *memory) solve(problem *packing.Problem, of search, searches int) (solution, bool) {
	key := maphash.String(m.seed, "solve "+problem.Key())
	found, ok := m.known(key)
	if ok && found.final() {
		m.packing.finish(of)
		return found, true
	}
	if steps := m.packing.share(of, searches); steps > found.steps {
		plan, answer, used := problem.Solve(steps)
		m.packing.left -= used
		found = solution{answer, plan, steps}
		m.solutions[key] = found
	}
	if !found.final() {
		m.packing.wait(of)
	}
	return found, found.final()
}

// way is a way to look for room for tasks.
type way string

const (
	firstOrders way = "first"
	otherOrders way = "others"
	anyWay      way = "any"
)

// isVain is true if the way has led nowhere, for what the key names.
func (m *memory) isVain(in way, key string) bool {
	_, vain := m.known(m.vainKey(in, key))
	return vain
}

// noteVain notes that the way leads nowhere.
func (m *memory) noteVain(in way, key string) { m.solutions[m.vainKey(in, key)] = solution{} }

func (m *memory) vainKey(in way, key string) uint64 {
	return maphash.String(m.seed, string(in)+" vain "+key)
}

// final is true if more steps would not be granted, or are not needed.
func (s *solution) final() bool { return s.Answer != packing.Unknown || s.steps >= maxPackingSteps }
