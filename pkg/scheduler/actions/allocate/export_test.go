// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/crosssession"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// ExecuteWithoutSteps is Execute when others have used all the steps that searches may take in the session, and it is nobody's turn.
func (a *Action) ExecuteWithoutSteps(ssn *framework.Session) {
	a.executeWithout(ssn, &a.crossSession.Packing, &a.crossSession.Orders)
}

// ExecuteWithoutPacking is the same where steps for orders are left.
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

// ExecuteByTurns is Execute when others have used the steps of all searches for an order, or of all packings, but for the one that has its turn.
// While orders have turns there are no packings.
func (a *Action) ExecuteByTurns(ssn *framework.Session, packings bool) {
	a.crossSession.BeginSession()
	a.crossSession.Packing.Left = 0
	if !packings {
		a.crossSession.Orders.Left, a.crossSession.Packing.Next = 0, nil
	}
	newScheduler(state.NewRun(ssn, a.crossSession, a.defaults, a.observe)).placeJobs()
}

// ChargeNamespace counts the looks as used by failed attempts to place a gang of the namespace that no longer exists.
func (a *Action) ChargeNamespace(namespace string, looks int) {
	a.crossSession.Turns.Failed(namespace, namespace+"/gone", looks)
}

// LooksOf returns how many looks failed attempts to place gangs of the namespace have used.
func (a *Action) LooksOf(namespace string) int { return a.crossSession.Turns.Looks(namespace) }
