// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"
	"sync"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// openTransactions are the running session's transactions that are not handed to the engine yet. Each gang or group of
// gangs has one transaction.
type openTransactions struct {
	mu     sync.Mutex
	byGang map[api.JobID]*binding.Transaction
	// inOrder are the open transactions in the order in which the session created them. It may also contain transactions
	// that were already submitted.
	inOrder []*binding.Transaction
	// last is the gang of the last added member, or the first gang of that gang's gang group. A session adds the members
	// of a gang or gang group one after the other.
	last api.JobID
	// incomplete are the gangs whose transactions were released when the session closed, before any step began, because
	// they had too few members for the gang's minimum.
	incomplete map[api.JobID]bool
	// lostNodes and lostGangs are the nodes and the gangs' PodGroups that were deleted since the session opened. The
	// session does not know objects that were created again under their names.
	lostNodes map[string]bool
	lostGangs map[api.JobID]bool
}

func newOpenTransactions() openTransactions {
	return openTransactions{
		byGang: map[api.JobID]*binding.Transaction{}, incomplete: map[api.JobID]bool{},
		lostNodes: map[string]bool{}, lostGangs: map[api.JobID]bool{},
	}
}

// add adds the member to the open transaction of its gang, or of its gang group if it has one. If the
// previously added member belongs to another transaction, add removes that transaction and returns it, for the caller to
// submit. But a transaction stays open if one of its gangs needs its whole minimum in one transaction (CountNone): later
// members of that gang may still join it.
func (o *openTransactions) add(member *binding.Member, gangGroup *binding.GangGroup) (former *binding.Transaction) {
	o.mu.Lock()
	defer o.mu.Unlock()
	gang := member.Task.Job
	if gangGroup != nil {
		gang = gangGroup.Gangs[0].Gang
	}
	if last, ok := o.byGang[o.last]; ok && o.last != gang && !last.CountsNone() {
		former = last
		delete(o.byGang, o.last)
	}
	tx, ok := o.byGang[gang]
	if !ok {
		tx = &binding.Transaction{Gang: gang, GangGroup: gangGroup}
		o.byGang[gang] = tx
		o.inOrder = append(o.inOrder, tx)
	}
	tx.Members = append(tx.Members, member)
	o.last = gang
	return former
}

// putBack opens a transaction again that add or takeWhole has removed.
func (o *openTransactions) putBack(tx *binding.Transaction) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.byGang[tx.Gang] = tx
}

// list returns the open transactions in the order in which the session created them.
func (o *openTransactions) list() []*binding.Transaction {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.listLocked()
}

func (o *openTransactions) listLocked() []*binding.Transaction {
	return slices.DeleteFunc(slices.Clone(o.inOrder), func(tx *binding.Transaction) bool { return o.byGang[tx.Gang] != tx })
}

// remove removes the given transactions from the open transactions.
func (o *openTransactions) remove(those []*binding.Transaction) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, tx := range those {
		delete(o.byGang, tx.Gang)
	}
}

// takeWhole removes and returns, in order, the open transactions that can be submitted early: no gang of them needs its
// whole minimum in one transaction (CountNone). If members of their gangs follow in a later transaction, the earlier
// members count for the minimum there.
func (o *openTransactions) takeWhole() []*binding.Transaction {
	o.mu.Lock()
	defer o.mu.Unlock()
	whole := slices.DeleteFunc(o.listLocked(), (*binding.Transaction).CountsNone)
	for _, tx := range whole {
		delete(o.byGang, tx.Gang)
	}
	return whole
}

// takeAll removes and returns all open transactions, in order.
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

// isIncomplete reports whether the gang's transaction was released when the session closed, because it had too few
// members for the gang's minimum. The PodGroup of such a gang must show the session's verdict.
func (o *openTransactions) isIncomplete(gang api.JobID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.incomplete[gang]
}

func (o *openTransactions) loseNode(node string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lostNodes[node] = true
}

func (o *openTransactions) loseGang(gang api.JobID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lostGangs[gang] = true
}

// hasLostNode reports whether the node was deleted since the session opened.
func (o *openTransactions) hasLostNode(node string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lostNodes[node]
}

// hasLostGang reports whether the gang's PodGroup was deleted since the session opened.
func (o *openTransactions) hasLostGang(gang api.JobID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lostGangs[gang]
}

// sessionOpens forgets what was recorded for the last session: the incomplete gangs, and the deleted nodes and PodGroups.
func (o *openTransactions) sessionOpens() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.incomplete)
	clear(o.lostNodes)
	clear(o.lostGangs)
}
