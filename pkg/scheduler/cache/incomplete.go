// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"errors"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// errIncomplete is why members are released whose gang no action of the session has completed. It is no failure of the
// gang's: the session tells what stops the rest.
var errIncomplete = errors.New("the rest of the gang's minimum is not placed")

// ReleaseIncomplete gives up the open transactions that are below their gang's minimum: upstream counts members without
// requests as placed before backfill has placed them. No step of theirs begins, and the gang waits out nothing. One whose
// gang has another transaction in flight may be complete once that has ended.
func (c *Cache) ReleaseIncomplete() map[api.JobID][]api.TaskID {
	released := map[api.JobID][]api.TaskID{}
	for _, tx := range c.takeIncomplete() {
		c.reportMu.Lock()
		for _, m := range tx.Members {
			released[m.Task.Job] = append(released[m.Task.Job], m.Task.UID)
			c.incomplete[m.Task.Job] = true
		}
		c.reportMu.Unlock()
		c.submit(tx, errIncomplete)
	}
	return released
}

func (c *Cache) takeIncomplete() []*binding.Transaction {
	c.openMu.Lock()
	inOrder := slices.DeleteFunc(slices.Clone(c.inOrder), func(tx *binding.Transaction) bool { return c.open[tx.Gang] != tx })
	c.openMu.Unlock()
	var taken []*binding.Transaction
	for _, tx := range inOrder {
		if there, short := c.shortOf(tx); there && short != nil && !slices.ContainsFunc(tx.Gangs(), c.engine.InFlight) {
			taken = append(taken, tx)
		}
	}
	c.openMu.Lock()
	defer c.openMu.Unlock()
	for _, tx := range taken {
		delete(c.open, tx.Gang)
	}
	return taken
}

// shortOf says what the gangs lack with the transaction's members, if their PodGroups are there.
func (c *Cache) shortOf(tx *binding.Transaction) (there bool, short error) {
	c.books.Lock()
	defer c.books.Unlock()
	for _, gang := range tx.Gangs() {
		job := c.books.Jobs.Get(gang)
		if job == nil || job.PodGroup == nil {
			return false, nil
		}
		if short == nil {
			short = tx.ShortOf(job, &job.PodGroup.Spec, tx.Members)
		}
	}
	return true, short
}

// wasIncomplete is true if the transaction that has ended was given up.
func wasIncomplete(r binding.Result) bool {
	return slices.ContainsFunc(r.Failed, func(f binding.Failure) bool { return errors.Is(f.Err, errIncomplete) })
}

// isIncomplete is true if the session that is about to close has given up the gang's transaction. The session's verdict on
// such a gang is to be told.
func (c *Cache) isIncomplete(gang api.JobID) bool {
	c.reportMu.Lock()
	defer c.reportMu.Unlock()
	return c.incomplete[gang]
}

func (c *Cache) forgetIncomplete() {
	c.reportMu.Lock()
	defer c.reportMu.Unlock()
	clear(c.incomplete)
}

// inFlight is true if the gang has a transaction in flight of which members may be bound.
func (c *Cache) inFlight(gang api.JobID) bool {
	return !c.isIncomplete(gang) && c.engine.InFlight(gang)
}
