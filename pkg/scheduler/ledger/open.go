// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"
	"sync"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// openTransactions are the transactions of the session that runs which are not handed to the engine yet, one for each gang or group of gangs.
type openTransactions struct {
	mu     sync.Mutex
	byGang map[api.JobID]*binding.Transaction
	// inOrder are the open transactions, and some that were submitted, in the order in which the session came to them.
	inOrder []*binding.Transaction
	// last is the gang that was added to last: while a statement commits, it stays the same.
	last api.JobID
	// incomplete are the gangs whose transactions the session that closes has given up before any step began.
	incomplete map[api.JobID]bool
}

func newOpenTransactions() openTransactions {
	return openTransactions{byGang: map[api.JobID]*binding.Transaction{}, incomplete: map[api.JobID]bool{}}
}

// add adds the member to its unit's transaction. It returns the transaction of the unit that the session was at
// before, if it went on, which is no longer open. A transaction to which members of a later transaction would not count stays open.
func (o *openTransactions) add(member *binding.Member, unit *binding.Unit) (former *binding.Transaction) {
	o.mu.Lock()
	defer o.mu.Unlock()
	gang := member.Task.Job
	if unit != nil {
		gang = unit.Gangs[0].Gang
	}
	if last, ok := o.byGang[o.last]; ok && o.last != gang && !last.CountsNone() {
		former = last
		delete(o.byGang, o.last)
	}
	tx, ok := o.byGang[gang]
	if !ok {
		tx = &binding.Transaction{Gang: gang, Unit: unit}
		o.byGang[gang] = tx
		o.inOrder = append(o.inOrder, tx)
	}
	tx.Members = append(tx.Members, member)
	o.last = gang
	return former
}

// putBack opens the transaction again that was taken.
func (o *openTransactions) putBack(tx *binding.Transaction) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.byGang[tx.Gang] = tx
}

// list returns the open transactions in order.
func (o *openTransactions) list() []*binding.Transaction {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.listLocked()
}

func (o *openTransactions) listLocked() []*binding.Transaction {
	return slices.DeleteFunc(slices.Clone(o.inOrder), func(tx *binding.Transaction) bool { return o.byGang[tx.Gang] != tx })
}

// take takes the open transactions of those given.
func (o *openTransactions) take(those []*binding.Transaction) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, tx := range those {
		delete(o.byGang, tx.Gang)
	}
}

// takeWhole takes the transactions that later members would count to, in order.
func (o *openTransactions) takeWhole() []*binding.Transaction {
	o.mu.Lock()
	defer o.mu.Unlock()
	whole := slices.DeleteFunc(o.listLocked(), (*binding.Transaction).CountsNone)
	for _, tx := range whole {
		delete(o.byGang, tx.Gang)
	}
	return whole
}

// takeAll takes all open transactions, in order.
func (o *openTransactions) takeAll() []*binding.Transaction {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.listLocked()
	o.byGang, o.inOrder = map[api.JobID]*binding.Transaction{}, nil
	return all
}

func (o *openTransactions) markIncomplete(tx *binding.Transaction) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range tx.Members {
		o.incomplete[m.Task.Job] = true
	}
}

// isIncomplete reports whether the session that is about to close has given up the gang's transaction. The session's verdict on
// such a gang is to be reported.
func (o *openTransactions) isIncomplete(gang api.JobID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.incomplete[gang]
}

func (o *openTransactions) forgetIncomplete() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.incomplete)
}
