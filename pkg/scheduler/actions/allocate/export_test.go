// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"time"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/crosssession"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// ExecuteWithoutSteps runs Execute as if other searches had used all steps of the session and no search had a turn.
func (a *Action) ExecuteWithoutSteps(ssn *framework.Session) {
	a.executeWithout(ssn, &a.crossSession.Packing, &a.crossSession.Orders)
}

// ExecuteWithoutPacking runs Execute as if other searches had used all steps for packing plans, and no search for a
// packing plan had a turn. Steps for trials of other orders are left.
func (a *Action) ExecuteWithoutPacking(ssn *framework.Session) {
	a.executeWithout(ssn, &a.crossSession.Packing)
}

func (a *Action) executeWithout(ssn *framework.Session, without ...*crosssession.Budget) {
	a.crossSession.BeginSession()
	for _, budget := range without {
		budget.Left, budget.Next = 0, nil
	}
	newScheduler(state.NewRun(ssn, a.crossSession, a.defaults, a.observe)).placeJobs()
}

// ExecuteByTurns runs Execute as if other searches had used all steps for packing plans. If packings is set, the search
// for a packing plan that has its turn still gets its steps. Otherwise no such search has a turn, and only the search
// for an order of tasks that has its turn gets steps for orders.
func (a *Action) ExecuteByTurns(ssn *framework.Session, packings bool) {
	a.crossSession.BeginSession()
	a.crossSession.Packing.Left = 0
	if !packings {
		a.crossSession.Orders.Left, a.crossSession.Packing.Next = 0, nil
	}
	newScheduler(state.NewRun(ssn, a.crossSession, a.defaults, a.observe)).placeJobs()
}

// SetAttemptTime sets how much time failed attempts to place gangs of the namespace may still take.
func (a *Action) SetAttemptTime(namespace string, left time.Duration) {
	a.crossSession.Turns.SetLeft(namespace, left)
}

// AttemptTime returns how much time failed attempts to place gangs of the namespace may still take.
func (a *Action) AttemptTime(namespace string) time.Duration {
	return a.crossSession.Turns.Left(namespace)
}
