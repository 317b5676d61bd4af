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
	gangs, formerGangs map[api.JobID]carried
	// objects number the objects of nodes that prints are of, and formerObjects are those of the session before: two have
	// different numbers, even if one is put where the other was.
	objects, formerObjects map[*v1.Node]uint64
	numbered               uint64
}

func newMemory() *memory {
	m := &memory{seed: maphash.MakeSeed()}
	m.begin()
	return m
}

// begin begins a session.
func (m *memory) begin() {
	m.former, m.answers = m.answers, map[uint64]packing.Answer{}
	m.formerGangs, m.gangs = m.gangs, map[api.JobID]carried{}
	m.formerObjects, m.objects = m.objects, map[*v1.Node]uint64{}
}

// carriedOver returns why the gang did not fit in the session before, if its print is the same.
func (m *memory) carriedOver(job api.JobID, fingerprint uint64) (carried, bool) {
	found, ok := m.formerGangs[job]
	return found, ok && found.print == fingerprint
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
