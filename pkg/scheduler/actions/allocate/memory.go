// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"hash/maphash"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/packing"
)

// memory is what the action remembers from one session to the next. None of it changes an answer: it is what would be found
// again. What a session has no use for is forgotten after the next.
type memory struct {
	seed maphash.Seed
	// answers are of packing problems, which depend on nothing but their numbers, by a hash of these; former are those of the
	// session before.
	answers, former map[uint64]packing.Answer
	// gangs are those that fit nowhere, and formerGangs those of the session before.
	gangs, formerGangs map[api.JobID]carriedExplanation
	// objects number the objects of nodes that fingerprints are of, and formerObjects are those of the session before: two have
	// different numbers, even if one is put where the other was.
	objects, formerObjects map[*v1.Node]uint64
	numbered               uint64
}

func newMemory() *memory {
	m := &memory{seed: maphash.MakeSeed()}
	m.beginSession()
	return m
}

// beginSession forgets what the session before had no use for.
func (m *memory) beginSession() {
	m.former, m.answers = m.answers, map[uint64]packing.Answer{}
	m.formerGangs, m.gangs = m.gangs, map[api.JobID]carriedExplanation{}
	m.formerObjects, m.objects = m.objects, map[*v1.Node]uint64{}
}

// reusable returns why the gang did not fit in the session before, if its fingerprint is the same.
func (m *memory) reusable(job api.JobID, fingerprint uint64) (carriedExplanation, bool) {
	found, ok := m.formerGangs[job]
	return found, ok && found.fingerprint == fingerprint
}

// answer returns the answer to the question about the problem.
func (m *memory) answer(problem *packing.Problem, question byte, find func() packing.Answer) packing.Answer {
	key := maphash.String(m.seed, string(question)+problem.Key())
	found, ok := m.answers[key]
	if !ok {
		if found, ok = m.former[key]; !ok {
			found = find()
		}
		m.answers[key] = found
	}
	return found
}

// numberOf numbers objects of nodes: an object has its number for as long as sessions have it.
func (m *memory) numberOf(node *v1.Node) uint64 {
	number, ok := m.objects[node]
	if !ok {
		if number, ok = m.formerObjects[node]; !ok {
			m.numbered++
			number = m.numbered
		}
		m.objects[node] = number
	}
	return number
}
