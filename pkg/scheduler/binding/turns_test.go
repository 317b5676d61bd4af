// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// turns has the submitted transactions in their order, and for each gang the first of them, which may run.
type turns struct {
	queue      []*Transaction
	inProgress map[api.JobID]*Transaction
}

func (t *turns) add(tx *Transaction) {
	t.queue = append(t.queue, tx)
	t.advance(tx.Gangs())
}

// remove removes the transaction, so that others of the gangs may run.
func (t *turns) remove(tx *Transaction, gangs []api.JobID) {
	t.queue = slices.DeleteFunc(t.queue, func(other *Transaction) bool { return other == tx })
	t.advance(gangs)
}

// advance records the transaction of each gang that may run now.
func (t *turns) advance(gangs []api.JobID) {
	for _, gang := range gangs {
		i := slices.IndexFunc(t.queue, func(tx *Transaction) bool { return slices.Contains(tx.Gangs(), gang) })
		if i < 0 {
			delete(t.inProgress, gang)
			continue
		}
		t.inProgress[gang] = t.queue[i]
	}
}

// started reports whether the pod's transaction is the one of its gang that may run.
func (t *turns) started(p *pod) bool {
	tx := t.inProgress[p.Task.Job]
	if tx == nil || !slices.Contains(tx.Members, p.Member) {
		return false
	}
	return !slices.ContainsFunc(tx.Gangs(), func(gang api.JobID) bool { return t.inProgress[gang] != tx })
}
