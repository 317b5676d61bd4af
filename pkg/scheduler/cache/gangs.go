// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"volcano.sh/volcano/pkg/scheduler/api"
)

// lookedAtOnce bounds how many members of gangs are looked at while the cache's mutex is held.
const lookedAtOnce = 2000

// GangIDs are the gangs that there are, in no order.
func (c *Cache) GangIDs() []api.JobID {
	c.books.Lock()
	defer c.books.Unlock()
	ids := make([]api.JobID, 0, c.books.Jobs.Len())
	for id := range c.books.Jobs.All() {
		ids = append(ids, id)
	}
	return ids
}

// SeeGangs shows these gangs, without those that are gone by now. see is called with the cache's mutex held, which is given up every now and
// then: it must be quick, and keep nothing of the gang.
func (c *Cache) SeeGangs(ids []api.JobID, see func(gang *api.JobInfo)) {
	for len(ids) > 0 {
		ids = c.seeSome(ids, see)
	}
}

func (c *Cache) seeSome(ids []api.JobID, see func(gang *api.JobInfo)) (left []api.JobID) {
	c.books.Lock()
	defer c.books.Unlock()
	for looked := 0; len(ids) > 0 && looked < lookedAtOnce; ids = ids[1:] {
		looked++
		if job := c.books.Jobs.Get(ids[0]); job != nil {
			looked += len(job.Tasks)
			see(job)
		}
	}
	return ids
}

// GroupsInFlight is how many transactions of several gangs have not ended.
func (c *Cache) GroupsInFlight() int { return c.engine.GroupsInFlight() }
