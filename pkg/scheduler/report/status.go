// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"

	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/quarantine"
)

// Standing is the state of a gang outside of the session, such as a transaction in flight.
type Standing struct {
	// InFlight reports whether the gang has a transaction in flight that may still bind members.
	InFlight bool
	// Blocked reports whether sessions currently skip the gang.
	Blocked bool
	// Quarantined is why the gang is quarantined; empty if it is not.
	Quarantined quarantine.Verdict
	// LacksHyperNodes reports whether the gang must be placed in one HyperNode and the cluster has none.
	LacksHyperNodes bool
}

func (s Standing) isQuarantined() bool { return s.Quarantined != quarantine.Verdict{} }

// SessionDone takes a session's verdict on a gang. Upstream writes the verdict unchanged, from the session loop. Here it
// is first corrected, because a session counts tasks as ready that are still being bound, and then passed to the status
// writer:
//
//   - a PodGroup is Running, and has the Scheduled condition, only when its whole minimum is bound;
//   - while a gang waits after a failed transaction, its conditions and its pods' conditions report only that failure;
//   - its waiting pods have the message of the PodGroup;
//   - a gang that is still arriving, pod by pod, is not called unschedulable for each pod that is yet to come.
func (r *Reporter) SessionDone(job *api.JobInfo, standing Standing) {
	r.correctStatus(job, standing)
	arriving := r.memory.isArriving(job)
	if arriving {
		r.withholdVerdict(job.PodGroup)
	}
	r.reportScheduled(job.PodGroup)
	r.outlet.status.PutPodGroup(job.PodGroup, standing.InFlight)
	switch {
	case arriving: // a session a moment later reports the verdict
	case standing.InFlight:
		r.resendDelays(job)
	case standing.isQuarantined():
		r.reportQuarantined(job, standing.Quarantined)
	case standing.Blocked: // its last transaction has been reported, and the next one will be reported
	default:
		r.Verdict(job)
		r.resend(job)
	}
}

// withholdVerdict replaces the session's Unschedulable condition by the last known one.
func (r *Reporter) withholdVerdict(pg *api.PodGroup) {
	before, _ := r.outlet.status.LastKnown(pg)
	removeCondition(&pg.Status, isUnschedulable)
	for _, condition := range before.Conditions {
		if isUnschedulable(condition) {
			pg.Status.Conditions = append(pg.Status.Conditions, condition)
		}
	}
}

func (r *Reporter) correctStatus(job *api.JobInfo, standing Standing) {
	status := &job.PodGroup.Status
	removeCondition(status, isDelay)
	r.reportIneffective(job, standing.LacksHyperNodes)
	defer r.delays.correct(job.UID, status)
	whole := correctPhase(job, standing.InFlight)
	if standing.isQuarantined() {
		setCondition(status, unschedulable(standing.Quarantined.Reason, standing.Quarantined.Message))
		return
	}
	failure, failed := r.memory.failure(job.UID)
	if !failed {
		return
	}
	switch {
	case standing.Blocked || standing.InFlight:
		setCondition(status, unschedulable(failure.Reason, failure.Message))
		if !whole && !hasCondition(*status, isTimedOut) {
			status.Phase = waitingPhase(job)
		}
	case len(job.TaskStatusIndex[api.Pending]) > 0:
		// The gang was tried again, and the session has recorded another reason why it waits.
		r.memory.forgetFailure(job.UID)
	}
}

// correctPhase corrects the phase and the conditions that the session set, according to the gang's minimum. It reports
// whether the whole minimum is placed.
func correctPhase(job *api.JobInfo, inFlight bool) (whole bool) {
	status := &job.PodGroup.Status
	short := binding.ShortOfPlaced(job)
	if short == nil {
		removeCondition(status, isUnschedulable) // upstream leaves earlier reasons in place
	} else {
		beingBound := len(job.TaskStatusIndex[api.Binding]) > 0 || inFlight
		if hasCondition(*status, isScheduled) && !hasCondition(*status, isUnschedulable) && !beingBound {
			// Upstream compares only minMember with the number of members here, not the minima of roles and sub-groups.
			setCondition(status, unschedulable(v1beta1.NotEnoughResourcesReason, fmt.Sprintf("too few members are bound: %v", short)))
		}
		removeCondition(status, isScheduled)
		if status.Phase == scheduling.PodGroupRunning && binding.ShortOf(job, &job.PodGroup.Spec, finishedOrPlaced) != nil {
			status.Phase = scheduling.PodGroupInqueue
		}
	}
	if status.Phase == scheduling.PodGroupCompleted && framework.HasPending(job) && len(job.TaskStatusIndex[api.Succeeded])+len(job.TaskStatusIndex[api.Failed]) == 0 {
		status.Phase = waitingPhase(job) // upstream treats a gang without members as complete
	}
	return short == nil
}

// waitingPhase returns the phase of a gang that waits after a failed transaction. The session's own verdict on it would
// alternate between sessions that skip the gang and sessions that try it.
func waitingPhase(job *api.JobInfo) scheduling.PodGroupPhase {
	if len(job.TaskStatusIndex[api.Running])+len(job.TaskStatusIndex[api.Bound]) > 0 {
		return scheduling.PodGroupUnknown // part of the minimum runs, and the rest cannot
	}
	return scheduling.PodGroupInqueue
}

// finishedOrPlaced reports whether the task is or was placed. Failed tasks count, too, as in upstream's phase of a
// PodGroup.
func finishedOrPlaced(task *api.TaskInfo) bool {
	return binding.Placed(task) || task.Status == api.Failed
}
