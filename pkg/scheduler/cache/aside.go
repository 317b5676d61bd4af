// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/setaside"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/snapshot"
)

// errSearching refuses evictions while sessions do not see all jobs.
var errSearching = errors.New("nothing is evicted while the scheduler looks for the object that makes its cycles panic")

// setAside takes from the snapshot what sessions do without, and tells of what is new.
func (c *Cache) setAside(snapshot *api.ClusterInfo, by *snapshot.Copies) {
	for gang, why := range c.aside.TakeFrom(snapshot, by, time.Now()) {
		c.reportGang(gang, gangFailure{reason: why.Reason, message: why.Message})
	}
}

// CyclePanicked learns from a cycle that panicked: during whose turn, when that is known, and as people are told it. It
// says whether a culprit was found, and whether the next cycle will be another one, so that it should run at once.
func (c *Cache) CyclePanicked(turn api.JobID, what string) (culprit, another bool) {
	found, another := c.aside.Panicked(time.Now(), turn, what)
	c.tellHeld(found)
	return len(found) > 0, another
}

// CycleSucceeded learns from a cycle that came to its end. It says whether objects are set aside or looked for, so that
// cycles are to go on.
func (c *Cache) CycleSucceeded() (busy bool) {
	found, busy := c.aside.Succeeded()
	c.tellHeld(found)
	return busy
}

// Searching is true if the object is searched for that makes cycles panic.
func (c *Cache) Searching() bool { return c.aside.Searching() }

// SetAside counts what is set aside, by kind of object.
func (c *Cache) SetAside() map[string]int { return c.aside.Counts() }

// tellHeld tells of objects that are set aside because of a panic.
func (c *Cache) tellHeld(found []setaside.Held) {
	for _, held := range found {
		logger().Error(nil, "Set aside, because scheduling cycles panic with it", "kind", held.Kind, "name", held.Name, "panic", held.Message)
		if held.Kind == setaside.PodGroup {
			c.reportGang(api.JobID(held.Name), gangFailure{reason: setaside.SchedulerPanic, message: held.Message})
			continue
		}
		object := &v1.ObjectReference{Kind: held.Kind, Name: held.Name}
		c.Recorder.Event(object, v1.EventTypeWarning, setaside.SchedulerPanic, held.Message)
	}
}
