// SPDX-License-Identifier: Apache-2.0

package allocate

import "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"

// ExecuteWithoutSteps is Execute when others have used all the steps that searches may take in the session, and it is nobody's turn.
func (a *Action) ExecuteWithoutSteps(ssn *framework.Session) {
	a.memory.beginSession()
	for _, turns := range []*turns{&a.memory.packing, &a.memory.orders} {
		turns.left, turns.next = 0, nil
	}
	newSolver(ssn, a).placeJobs()
}
