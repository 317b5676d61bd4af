// SPDX-License-Identifier: Apache-2.0

package books

import (
	"container/heap"
	"iter"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// A pod that is being deleted continues to run for its grace period. A tenant chooses the grace period, which may be a
// year, and the pod may run longer if nothing ends it. So its resources are counted as soon to be released only while
// the pod leaves. It leaves
//
//   - from leavesBefore the end of its grace period until leavesAfter that end, and
//   - as the victim of an eviction, for victimLeaves from the eviction, however long its grace period is. A leader finds the
//     victims of a former leader by a condition in the status of their pods (conditions.Evicted).
//
// At all other times the pod stays. Whether it leaves or stays, the pod's status in its job is Releasing, because its
// gang cannot rely on it. On its node, a pod that stays is a task that does not end. Its status there is Unknown,
// because no action evicts a task of that status.
//
// A pod that is being deleted counts against its queue until it no longer exists. Otherwise a tenant could run any
// number of pods, by deleting them as soon as they start. Pods that ran for at least ranLong before they were deleted
// do not count while they leave. The next gang of the queue can then wait on their nodes. A tenant may thus use twice
// the limit of its queue while the pods leave, for 3 of 13 minutes (leavesBefore, leavesAfter and ranLong). Victims
// leave for longer, so they count. They are left out only for the gang that evicted them (framework.QueueUse).
const (
	leavesBefore = 2 * time.Minute
	leavesAfter  = time.Minute
	// victimLeaves is how long a gang waits for a pod that was evicted for it, at most. Plugin evictionbackoff has the
	// same limit.
	victimLeaves = 11 * time.Minute
	ranLong      = 10 * time.Minute
)

// leaving reports whether the record's pod leaves: its resources count as soon to be released, by the rules at the top
// of this file. changes is when that answer changes next; zero if it does not change by time alone.
func (r *record) leaving(now time.Time) (leaves bool, changes time.Time) {
	next := func(at time.Time) bool {
		if !now.Before(at) {
			return false
		}
		if changes.IsZero() || at.Before(changes) {
			changes = at
		}
		return true
	}
	if r.isVictim() {
		leaves = next(r.evicted.Add(victimLeaves))
	}
	if due := r.shown.DeletionTimestamp; due != nil {
		begun, over := !next(due.Add(-leavesBefore)), !next(due.Add(leavesAfter))
		leaves = leaves || begun && !over
	}
	return leaves, changes
}

// isVictim reports whether the pod of the record was evicted.
func (r *record) isVictim() bool { return r.victim == r.shown.UID }

// paid reports whether the record's pod ran for ranLong before it was deleted. If so, the pod does not count against
// its queue while it leaves. The kubelet writes the time at which the pod started.
func (r *record) paid() bool {
	due, grace, start := r.shown.DeletionTimestamp, r.shown.DeletionGracePeriodSeconds, r.shown.Status.StartTime
	if due == nil || grace == nil || start == nil {
		return false
	}
	deleted := due.Add(-time.Duration(*grace) * time.Second)
	return deleted.Sub(start.Time) >= ranLong
}

// updateDeleted recomputes, for a pod that is being deleted, whether it stays (its resources do not count as soon to be
// released) and whether it counts against its queue. It also records when these results change next.
func (p *Pods) updateDeleted(key api.TaskID, r *record) {
	r.stays = false
	delete(p.deleted, key)
	var changes time.Time
	if r.task != nil && r.task.Status == api.Releasing && r.shown.Spec.NodeName != "" {
		now := p.now()
		var leaves bool
		leaves, changes = r.leaving(now)
		r.stays = !leaves
		if !leaves || r.isVictim() || !r.paid() {
			p.deleted[key] = r
		}
	}
	p.changes.set(r, changes)
}

// lapse recomputes the tasks of records whose state has changed by the passage of time. The caller must hold the mutex.
func (p *Pods) lapse() {
	for len(p.changes) > 0 && !p.now().Before(p.changes[0].at) { // reads the clock for each record, because it may be set back meanwhile
		p.move(p.changes[0].record)
	}
}

// Deleted yields the tasks of pods that are being deleted and count against their queues. The caller must hold the
// mutex and must not change the tasks.
func (p *Pods) Deleted() iter.Seq[*api.TaskInfo] {
	return func(yield func(*api.TaskInfo) bool) {
		for _, r := range p.deleted {
			if !yield(r.task) {
				return
			}
		}
	}
}

// onNode returns the task in the state in which it is added to its node. If the pod is being deleted but will not be
// gone soon, its status is Unknown, so that no action evicts it.
func (r *record) onNode() *api.TaskInfo {
	if !r.stays {
		return r.task
	}
	task := r.task.Clone()
	task.Status = api.Unknown
	return task
}

// change is the time at which the state of a record changes by the passage of time.
type change struct {
	at     time.Time
	record *record
}

// changes is a heap, the earliest change first. A record's slot is the index of its change in the heap.
type changes []change

// set records the time at which the record changes next, and replaces the former time of the record. A zero time
// removes the record from the heap.
func (c *changes) set(r *record, at time.Time) {
	entered := r.slot < len(*c) && (*c)[r.slot].record == r
	switch {
	case at.IsZero() && entered:
		heap.Remove(c, r.slot)
	case at.IsZero():
	case entered:
		(*c)[r.slot].at = at
		heap.Fix(c, r.slot)
	default:
		heap.Push(c, change{at, r})
	}
}

func (c changes) Len() int           { return len(c) }
func (c changes) Less(i, j int) bool { return c[i].at.Before(c[j].at) }
func (c changes) Swap(i, j int) {
	c[i], c[j] = c[j], c[i]
	c[i].record.slot, c[j].record.slot = i, j
}

// Push implements heap.Interface.
func (c *changes) Push(entry any) {
	e := entry.(change)
	e.record.slot = len(*c)
	*c = append(*c, e)
}

// Pop implements heap.Interface.
func (c *changes) Pop() any {
	last := len(*c) - 1
	e := (*c)[last]
	(*c)[last] = change{}
	*c = (*c)[:last]
	return e
}
