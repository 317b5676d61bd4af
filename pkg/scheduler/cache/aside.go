// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/snapshot"
)

// Reasons of events and conditions of what is set aside.
const (
	invalidResources = "InvalidResources"
	objectTooLarge   = "TooLarge"
	schedulerPanic   = "SchedulerPanic"
)

// errSearching refuses evictions while sessions do not see all jobs.
var errSearching = errors.New("nothing is evicted while the scheduler looks for the object that makes its cycles panic")

// aside is what sessions do without, so that one object stops nobody else: numbers that cannot be reckoned with, objects
// of which there is too much (toolarge.go), and objects during whose turn, or with which, cycles panicked (hunt.go).
//
// Objects too large, numbers below 0, and queues from which no way leads to the root, are looked for in each snapshot. A gang that
// has such, or whose queue has, is not placed: it is left out, but when it holds resources already it stays without the numbers, and
// with what it holds as its minResources when it is too large, so that its queue's books are right.
type aside struct {
	mu    sync.Mutex
	hunt  *hunt
	wrong map[api.JobID]verdict
	// paused are the gangs that are not placed because part of their queue's books is left out by the hunt.
	paused map[api.JobID]bool
}

func newAside() *aside { return &aside{hunt: newHunt(), wrong: map[api.JobID]verdict{}} }

// why says why the gang is set aside, if it is.
func (a *aside) why(gang api.JobID) (reason, message string, is bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if wrong, is := a.wrong[gang]; is {
		return wrong.reason, wrong.message, true
	}
	if held, is := a.hunt.held[item{podGroupItem, string(gang)}]; is {
		return schedulerPanic, held.message, true
	}
	return "", "", false
}

// verdict is why something is set aside.
type verdict struct{ reason, message string }

// gangs says of each gang that is set aside why.
func (a *aside) gangs() map[api.JobID]verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	why := maps.Clone(a.wrong)
	for it, held := range a.hunt.held {
		if it.kind == podGroupItem {
			why[api.JobID(it.name)] = verdict{schedulerPanic, held.message}
		}
	}
	return why
}

// forgive lets everything back in that is set aside because of a panic.
func (a *aside) forgive() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hunt = newHunt()
}

// pausing says whether the gang's queue is not seen as a whole.
func (a *aside) pausing(gang api.JobID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.paused[gang]
}

// setAside takes from the snapshot what sessions do without, and tells of what is new.
func (c *Cache) setAside(snapshot *api.ClusterInfo, by *snapshot.Snapshotter) {
	wrong := unreckonable(snapshot, by)
	c.aside.mu.Lock()
	before := c.aside.wrong
	c.aside.wrong = wrong
	c.aside.paused = c.aside.hunt.leaveOut(snapshot, time.Now())
	c.aside.mu.Unlock()
	for gang, why := range wrong {
		if before[gang] != why {
			c.reportGang(gang, gangFailure{reason: why.reason, message: why.message})
		}
	}
}

// reckonWithHoldings has gangs that are set aside as too large, and stay because they hold resources, count as asking for what
// they hold of the kinds that there are: the queue's books would have all kinds of resources that they name. It is called once it
// is known what they hold.
func (a *aside) reckonWithHoldings(snapshot *api.ClusterInfo) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var known kinds
	for gang, why := range a.wrong {
		if job := snapshot.Jobs[gang]; job != nil && why.reason == objectTooLarge {
			if known == nil {
				known = kindsOf(snapshot)
			}
			withKnownKinds(job, known)
			framework.ReckonWithHoldings(job)
		}
	}
}

// unreckonable mends what the snapshot has of numbers that cannot be reckoned with, leaves out gangs that do not hold
// anything, and says what is wrong by gang. Objects too large are left out, or mended, likewise.
func unreckonable(snapshot *api.ClusterInfo, by *snapshot.Snapshotter) map[api.JobID]verdict {
	queues := mendQueues(snapshot)
	gangs := map[api.JobID]verdict{}
	for id, job := range snapshot.Jobs {
		if message, bad := queues[job.Queue]; bad {
			gangs[id] = verdict{invalidResources, message}
		}
		if by.WithinBounds(id, job) {
			// nothing of it has changed
		} else if wrong := tooLarge(job); wrong != "" {
			gangs[id] = verdict{objectTooLarge, brief.Text(wrong)}
		} else {
			by.NoteWithinBounds(id, job)
		}
		if needed := job.PodGroup.Spec.MinResources; needed != nil && !reckonable(*needed) {
			if wrong := negative("spec.minResources", *needed); len(wrong) > 0 && gangs[id].reason != objectTooLarge {
				gangs[id] = verdict{invalidResources, told(wrong)}
			}
			mended := withinReckoning(*needed, 1)
			job.PodGroup.Spec.MinResources = &mended
		}
	}
	for id, message := range beyondKinds(snapshot, gangs) {
		gangs[id] = verdict{objectTooLarge, brief.Text(message)}
	}
	for id := range gangs {
		if !holdsResources(snapshot.Jobs[id]) {
			delete(snapshot.Jobs, id)
		}
	}
	return gangs
}

// mendQueues mends the queues of the snapshot, and says what is wrong by queue.
func mendQueues(snapshot *api.ClusterInfo) map[api.QueueID]string {
	queues := map[api.QueueID]string{}
	lost := withoutRoot(snapshot)
	for id, queue := range snapshot.Queues {
		spec, wrong := mendedQueue(&queue.Queue.Spec)
		if message, is := lost[id]; is {
			if spec == nil {
				own := queue.Queue.Spec
				spec = &own
			}
			spec.Parent, wrong = "", append(wrong, message)
		}
		if spec == nil {
			continue
		}
		own := *queue.Queue // upstream's snapshot shares it with the cache
		own.Spec = *spec
		queue.Queue = &own
		if len(wrong) > 0 {
			queues[id] = "queue " + queue.Name + ": " + told(wrong)
		}
	}
	return queues
}

// mendedQueue returns a spec whose numbers can be reckoned with, and what was negative; nil when all is well.
func mendedQueue(spec *scheduling.QueueSpec) (*scheduling.QueueSpec, []string) {
	if reckonable(spec.Capability, spec.Deserved, spec.Guarantee.Resource) {
		return nil, nil
	}
	wrong := append(append(negative("spec.capability", spec.Capability), negative("spec.deserved", spec.Deserved)...),
		negative("spec.guarantee.resource", spec.Guarantee.Resource)...)
	mended := *spec
	mended.Capability = withinReckoning(spec.Capability, 1)
	mended.Deserved = withinReckoning(spec.Deserved, 1)
	mended.Guarantee.Resource = withinReckoning(spec.Guarantee.Resource, 1)
	return &mended, wrong
}

// withoutRoot says of the queues from which no way up leads to the root what is wrong. Upstream adds up what queues use
// along that way: a circle keeps it busy for ever, and it panics at a parent that is not there.
func withoutRoot(snapshot *api.ClusterInfo) map[api.QueueID]string {
	lost := map[api.QueueID]string{}
	for id := range snapshot.Queues {
		at := id
		for steps := 0; at != rootQueue && at != ""; steps++ {
			queue, there := snapshot.Queues[at]
			if !there {
				lost[id] = fmt.Sprintf("spec.parent leads to queue %s, which does not exist", at)
				break
			}
			if steps == len(snapshot.Queues) {
				lost[id] = fmt.Sprintf("spec.parent is %s, which leads in a circle, it must lead to the root", snapshot.Queues[id].Queue.Spec.Parent)
				break
			}
			at = api.QueueID(queue.Queue.Spec.Parent)
		}
	}
	return lost
}

func told(wrong []string) string {
	message := wrong[0]
	if more := len(wrong) - 1; more > 0 {
		message += fmt.Sprintf(" (and %d more)", more)
	}
	return brief.Text(message)
}

func holdsResources(job *api.JobInfo) bool {
	for status, tasks := range job.TaskStatusIndex {
		if api.AllocatedStatus(status) && len(tasks) > 0 {
			return true
		}
	}
	return false
}

// CyclePanicked learns from a cycle that panicked: during whose turn, when that is known, and as people are told it. It
// says whether a culprit was found, and whether the next cycle will be another one, so that it should run at once.
func (c *Cache) CyclePanicked(turn api.JobID, what string) (culprit, another bool) {
	c.aside.mu.Lock()
	found, another := c.aside.hunt.panicked(time.Now(), turn, what)
	c.aside.mu.Unlock()
	for _, it := range found {
		c.tellHeld(it)
	}
	return len(found) > 0, another
}

// CycleSucceeded learns from a cycle that came to its end. It says whether objects are set aside or looked for, so that
// cycles are to go on.
func (c *Cache) CycleSucceeded() (busy bool) {
	c.aside.mu.Lock()
	found, busy := c.aside.hunt.succeeded()
	c.aside.mu.Unlock()
	for _, it := range found {
		c.tellHeld(it)
	}
	return busy
}

// Searching says whether the object is searched for that makes cycles panic.
func (c *Cache) Searching() bool {
	c.aside.mu.Lock()
	defer c.aside.mu.Unlock()
	return c.aside.hunt.searching()
}

// SetAside counts what is set aside, by kind of object.
func (c *Cache) SetAside() map[string]int {
	c.aside.mu.Lock()
	defer c.aside.mu.Unlock()
	counts := map[string]int{podGroupItem: len(c.aside.wrong), queueItem: 0, nodeItem: 0}
	for it := range c.aside.hunt.held {
		counts[it.kind]++
	}
	return counts
}

// tellHeld tells of an object that is set aside because of a panic.
func (c *Cache) tellHeld(it item) {
	c.aside.mu.Lock()
	held, is := c.aside.hunt.held[it]
	var message string
	if is {
		message = held.message
	}
	c.aside.mu.Unlock()
	if !is {
		return
	}
	logger().Error(nil, "Set aside, because scheduling cycles panic with it", "kind", it.kind, "name", it.name, "panic", message)
	if it.kind == podGroupItem {
		c.reportGang(api.JobID(it.name), gangFailure{reason: schedulerPanic, message: message})
		return
	}
	object := &v1.ObjectReference{Kind: it.kind, Name: it.name}
	c.Recorder.Event(object, v1.EventTypeWarning, schedulerPanic, message)
}

// Evict evicts the task, unless sessions see only part of the jobs.
func (c *Cache) Evict(task *api.TaskInfo, reason string) error {
	if c.Searching() {
		return errSearching
	}
	return c.SchedulerCache.Evict(task, reason)
}
