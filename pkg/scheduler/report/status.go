// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"

	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/quarantine"
)

// Standing has facts about a gang that the session does not have, such as whether a transaction is in flight.
type Standing struct {
	// InFlight reports whether the gang has a transaction in flight that may still bind members of the gang.
	InFlight bool
	// Blocked reports whether sessions currently skip the gang.
	Blocked bool
	// Quarantined is the reason why the gang is quarantined; empty if the gang is not quarantined.
	Quarantined quarantine.Verdict
	// HyperNodes describes the cluster's HyperNodes; the zero value if the PodGroup has no network topology.
	HyperNodes HyperNodes
}

func (s Standing) isQuarantined() bool { return s.Quarantined != quarantine.Verdict{} }

// SessionDone takes a session's verdict on a gang. Upstream writes the verdict unchanged, from within the session loop.
// Here the verdict is first corrected, because a session counts tasks as ready that are still being bound. Then it is
// passed to the status writer. The corrections are:
//
//   - A PodGroup is Running, and has the condition Scheduled, only when its whole minimum is bound.
//   - While a gang waits after a failed transaction, its conditions and its pods' conditions report only that failure.
//   - The waiting pods of a gang have the message of its PodGroup.
//   - A gang whose pods are still being created is not reported as unschedulable because of the missing pods.
func (r *Reporter) SessionDone(job *api.JobInfo, standing Standing) {
	r.correctStatus(job, standing)
	arriving := r.history.isArriving(job)
	if arriving {
		r.withholdVerdict(job.PodGroup)
	}
	r.reportScheduled(job.PodGroup)
	r.outlet.status.PutPodGroup(job.PodGroup, standing.InFlight)
	switch {
	case arriving: // a later session reports the verdict
	case standing.InFlight:
		r.resendDelays(job)
	case standing.isQuarantined():
		r.reportQuarantined(job, standing.Quarantined)
	case standing.Blocked: // the gang's last transaction has been reported, and its next one will be
	default:
		r.Verdict(job)
		r.resend(job)
	}
}

// withholdVerdict removes the condition Unschedulable that the session set. The PodGroup then has its last known
// condition Unschedulable, if there was one.
func (r *Reporter) withholdVerdict(pg *api.PodGroup) {
	before, _ := r.outlet.status.LastKnown(pg)
	conditions.Drop(&pg.Status, scheduling.PodGroupUnschedulableType)
	if condition := conditions.Find(&before, scheduling.PodGroupUnschedulableType); condition != nil {
		pg.Status.Conditions = append(pg.Status.Conditions, *condition)
	}
}

func (r *Reporter) correctStatus(job *api.JobInfo, standing Standing) {
	status := &job.PodGroup.Status
	dropDelay(status)
	r.reportIneffective(job, standing.HyperNodes)
	defer r.delays.correct(job.UID, status)
	whole := correctPhase(job, standing.InFlight)
	if standing.isQuarantined() {
		setUnschedulable(status, standing.Quarantined.Reason, standing.Quarantined.Message)
		return
	}
	failure, failed := r.history.failure(job.UID)
	if !failed {
		return
	}
	switch {
	case standing.Blocked || standing.InFlight:
		setUnschedulable(status, failure.Reason, failure.Message)
		if !whole && !isTimedOut(status) {
			status.Phase = waitingPhase(job)
		}
	case len(job.TaskStatusIndex[api.Pending]) > 0:
		// A session tried the gang again and has recorded another reason why the gang waits.
		r.history.forgetFailure(job.UID)
	}
}

// correctPhase corrects the phase and the conditions that the session set, so that they agree with the gang's minimum.
// It reports whether the whole minimum is bound.
func correctPhase(job *api.JobInfo, inFlight bool) (whole bool) {
	status := &job.PodGroup.Status
	short := binding.ShortOfBound(job)
	if short == nil {
		conditions.Drop(status, scheduling.PodGroupUnschedulableType) // upstream keeps the reasons of earlier sessions
		if status.Phase == scheduling.PodGroupUnknown {
			// The minimum is bound, so the gang runs. Upstream sets phase Unknown while other members wait for each
			// other to be placed.
			status.Phase = scheduling.PodGroupRunning
		}
	} else {
		beingBound := len(job.TaskStatusIndex[api.Binding]) > 0 || inFlight
		nothingWaits := !beingBound && !hasPending(job) && status.Phase != scheduling.PodGroupCompleted
		if isScheduled(status) && !isUnschedulable(status) && !beingBound || nothingWaits {
			// Upstream considers the gang scheduled, because it compares only minMember with the number of members. It ignores
			// the minima of roles and sub-groups. But the gang is below its whole minimum, so it is unschedulable.
			setUnschedulable(status, v1beta1.NotEnoughResourcesReason, fmt.Sprintf("too few members are bound: %v", short))
		}
		conditions.Drop(status, scheduling.PodGroupScheduled)
		if status.Phase == scheduling.PodGroupPending && (beingBound || nothingWaits) && !isTimedOut(status) {
			// Upstream does not count members that are being bound. Nor does it see that a gang whose further members are placed
			// one by one has lost members.
			status.Phase = scheduling.PodGroupInqueue
		}
		if status.Phase == scheduling.PodGroupRunning && binding.ShortOf(job, &job.PodGroup.Spec, boundOrFailed) != nil {
			status.Phase = scheduling.PodGroupInqueue
		}
	}
	if status.Phase == scheduling.PodGroupCompleted && !hasPending(job) {
		conditions.Drop(status, scheduling.PodGroupUnschedulableType) // nothing waits: upstream reports that fewer members succeeded than the minimum
	}
	if status.Phase == scheduling.PodGroupCompleted && hasPending(job) && len(job.TaskStatusIndex[api.Succeeded])+len(job.TaskStatusIndex[api.Failed]) == 0 {
		status.Phase = waitingPhase(job) // upstream sets phase Completed for a gang without members
	}
	return short == nil
}

// waitingPhase returns the phase of a gang that waits after a failed transaction. The phase that sessions compute would
// alternate, because some sessions skip the gang and others try it.
func waitingPhase(job *api.JobInfo) scheduling.PodGroupPhase {
	if len(job.TaskStatusIndex[api.Running])+len(job.TaskStatusIndex[api.Bound]) > 0 {
		return scheduling.PodGroupUnknown // a part of the gang's minimum runs, and the rest cannot run
	}
	return scheduling.PodGroupInqueue
}

// boundOrFailed reports whether the task is or was bound. Failed tasks count too, because upstream counts them for
// the phase Running of a PodGroup.
func boundOrFailed(task *api.TaskInfo) bool {
	return binding.CountsAsBound(task) || task.Status == api.Failed
}
