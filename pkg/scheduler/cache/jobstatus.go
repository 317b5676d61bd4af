// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"time"

	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/statuswriter"
)

// UpdateJobStatus takes a session's verdict on a gang. Upstream writes it as it is, from the session loop; here it is
// first held against the truth, since a session counts tasks as ready that are only being bound, and then left to
// the status writer:
//
//   - a PodGroup is Running, and has the Scheduled condition, only when its whole minimum is bound;
//   - while a gang waits out a failed transaction its conditions and its pods' say that, and nothing else;
//   - its pods that wait say what its PodGroup says;
//   - a gang that is still arriving, pod by pod, is not called unschedulable for each pod that is yet to come.
func (c *Cache) UpdateJobStatus(job *api.JobInfo, _, updateAnnotations, updateJobInfo bool) (*api.JobInfo, error) {
	if isOrphan(job) {
		return job, nil
	}
	inFlight := c.inFlight(job.UID)
	_, blocked := c.Blocked(job.UID)
	c.correctStatus(job, inFlight, blocked)
	if updateAnnotations {
		c.books.Jobs.NoteHyperNode(job)
	}
	if updateJobInfo {
		c.books.Jobs.NoteHyperNodes(job)
	}
	arriving := c.arriving(job)
	if arriving {
		c.withholdVerdict(job.PodGroup)
	}
	c.tellScheduled(job.PodGroup)
	c.status.PutPodGroup(job.PodGroup, inFlight)
	reason, message, aside := c.aside.Why(job.UID)
	switch {
	case arriving: // a cycle a moment later tells
	case inFlight:
		c.retellDelays(job)
	case aside:
		c.tellAside(job, reason, message)
	case blocked: // its transaction has told, and the next one will
	default:
		c.tellVerdict(job)
		c.retell(job)
	}
	return job, nil
}

// withholdVerdict leaves the PodGroup's Unschedulable condition as it was last known.
func (c *Cache) withholdVerdict(pg *api.PodGroup) {
	before, _ := c.status.LastKnown(pg)
	removeCondition(&pg.Status, isUnschedulable)
	for _, condition := range before.Conditions {
		if isUnschedulable(condition) {
			pg.Status.Conditions = append(pg.Status.Conditions, condition)
		}
	}
}

// arrival is how many tasks a gang had when that number last changed, and when that was.
type arrival struct {
	tasks int
	since time.Time
}

// arriving is true if the gang's number of tasks changed a moment ago and some of them wait.
func (c *Cache) arriving(job *api.JobInfo) bool {
	c.reportMu.Lock()
	defer c.reportMu.Unlock()
	last, ok := c.arrivals[job.UID]
	if !ok || last.tasks != len(job.Tasks) {
		last = arrival{tasks: len(job.Tasks), since: time.Now()}
		if _, err := c.podGroups.PodGroups(job.Namespace).Get(job.Name); err == nil { // else it is forgotten already
			c.arrivals[job.UID] = last
		}
	}
	return time.Since(last.since) < statuswriter.Settle && (len(job.Tasks) == 0 || len(job.TaskStatusIndex[api.Pending]) > 0)
}

func (c *Cache) correctStatus(job *api.JobInfo, inFlight, blocked bool) {
	status := &job.PodGroup.Status
	removeCondition(status, isDelay)
	c.reportIneffective(job)
	defer c.delays.correct(job.UID, status)
	short := binding.ShortOf(job, &job.PodGroup.Spec, binding.Placed)
	whole := short == nil
	if !whole {
		beingBound := len(job.TaskStatusIndex[api.Binding]) > 0 || inFlight
		if hasCondition(*status, isScheduled) && !hasCondition(*status, isUnschedulable) && !beingBound {
			// Upstream holds only the number of members against the minimum here.
			setCondition(status, unschedulable(v1beta1.NotEnoughResourcesReason, fmt.Sprintf("the gang is below its minimum: %v", short)))
		}
		removeCondition(status, isScheduled)
		if status.Phase == scheduling.PodGroupRunning && binding.ShortOf(job, &job.PodGroup.Spec, finishedOrPlaced) != nil {
			status.Phase = scheduling.PodGroupInqueue
		}
	} else {
		removeCondition(status, isUnschedulable) // upstream leaves what once was in the way
	}
	if status.Phase == scheduling.PodGroupCompleted && framework.Waits(job) && len(job.TaskStatusIndex[api.Succeeded])+len(job.TaskStatusIndex[api.Failed]) == 0 {
		status.Phase = waitingPhase(job) // upstream finds that all of no members are done
	}
	if reason, message, aside := c.aside.Why(job.UID); aside {
		setCondition(status, unschedulable(reason, message))
		return
	}
	failure, failed := c.failure(job.UID)
	if !failed {
		return
	}
	switch {
	case blocked || inFlight:
		setCondition(status, unschedulable(failure.reason, failure.message))
		if !whole && !hasCondition(*status, isSentBack) {
			status.Phase = waitingPhase(job)
		}
	case len(job.TaskStatusIndex[api.Pending]) > 0:
		// It was tried again and something else is in the way now, which the session has written down.
		c.forgetFailure(job.UID)
	}
}

// isSentBack is true of the condition of a gang whose room in its queue is for others now.
func isSentBack(condition scheduling.PodGroupCondition) bool {
	return condition.Type == framework.GangTimeLimit && condition.Reason == framework.GangTimedOut
}

// waitingPhase is the phase of a gang that waits after a failed transaction. A session's own verdict on it changes from
// one that leaves it out to one that tries it.
func waitingPhase(job *api.JobInfo) scheduling.PodGroupPhase {
	if len(job.TaskStatusIndex[api.Running])+len(job.TaskStatusIndex[api.Bound]) > 0 {
		return scheduling.PodGroupUnknown // part of the minimum runs, the rest cannot
	}
	return scheduling.PodGroupInqueue
}

// finishedOrPlaced counts failed tasks too, as upstream does for a PodGroup's phase: they were placed.
func finishedOrPlaced(task *api.TaskInfo) bool {
	return binding.Placed(task) || task.Status == api.Failed
}
