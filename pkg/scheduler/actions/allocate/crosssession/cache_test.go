// SPDX-License-Identifier: Apache-2.0

package crosssession

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/packing"
)

// TestSearchWithTooFewStepsContinuesInTheNextSession checks that a search that did not get all of its steps has no
// result yet, and that a complete search is not repeated.
func TestSearchWithTooFewStepsContinuesInTheNextSession(t *testing.T) {
	class := func(cpu float64) packing.TaskClass {
		return packing.TaskClass{Request: []float64{cpu}, Count: 1, Role: -1}
	}
	problem := &packing.Problem{
		Classes: []packing.TaskClass{class(5), class(3)}, Wanted: 2,
		Nodes: []packing.Node{{Room: []float64{4}, Slots: 9, Takes: []bool{false, true}}, {Room: []float64{6}, Slots: 9, Takes: []bool{true, true}}},
	}
	plan := packing.Plan{{0, 1}, {1, 0}}
	m := New()
	steps := []struct {
		name       string
		session    bool
		steps      int
		wantAnswer packing.Answer
		wantDone   bool
	}{
		{name: "no steps are left", steps: 0, wantAnswer: packing.Unknown},
		{name: "too few are left", steps: 1, wantAnswer: packing.Unknown},
		{name: "the next session has its own", session: true, steps: sessionPackingSteps, wantAnswer: packing.Fits, wantDone: true},
		{name: "the answer is known", steps: 0, wantAnswer: packing.Fits, wantDone: true},
		{name: "the session after knows it", session: true, steps: 0, wantAnswer: packing.Fits, wantDone: true},
	}
	for _, step := range steps {
		if step.session {
			m.BeginSession()
			if m.Packing.Left != sessionPackingSteps {
				t.Errorf("%s: the session begins with %d steps, want %d", step.name, m.Packing.Left, sessionPackingSteps)
			}
		}
		m.Packing.Left = step.steps
		found, done := m.Solve(problem, Search{}, 1)
		if found.Answer != step.wantAnswer || done != step.wantDone {
			t.Errorf("%s: answer %d, done %t; want %d, %t", step.name, found.Answer, done, step.wantAnswer, step.wantDone)
		}
		if found.Answer == packing.Fits {
			if diff := cmp.Diff(plan, found.Plan); diff != "" {
				t.Errorf("%s: plan (-want +got):\n%s", step.name, diff)
			}
		}
	}
	m.BeginSession()
	m.BeginSession()
	m.Packing.Left = 0
	if _, done := m.Solve(problem, Search{}, 1); done {
		t.Error("an entry that a session did not use is still cached after the next")
	}
}
