// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// Reasons why a gang waits, as in the condition of its PodGroup. Plugins may return other reasons in the result of
// JobValid.
const (
	NotEnoughResources  = v1beta1.NotEnoughResourcesReason
	NotEnoughPods       = v1beta1.NotEnoughPodsReason
	NotEnoughPodsOfTask = v1beta1.NotEnoughPodsOfTaskReason
	// SchedulingGated means that the gang has too few pods without scheduling gates.
	SchedulingGated = "SchedulingGated"
	// NotEnqueued means that the PodGroup is Pending because a plugin did not admit it.
	NotEnqueued = "NotEnqueued"
	// NotTried means that no action has tried to place the gang in this session, because failed attempts for gangs of its
	// namespace have used up their time.
	NotTried = "NotTried"
	// QueueFull means that the gang's queue is at its limit.
	QueueFull = "QueueFull"
	// QueueNotOpen, QueueNotFound and QueueHasChildren mean that the gang's queue is closed, does not exist, or may
	// contain only queues.
	QueueNotOpen     = "QueueNotOpen"
	QueueNotFound    = "QueueNotFound"
	QueueHasChildren = "QueueHasChildren"
	// PodGroupNotFound means that pods name a PodGroup that does not exist.
	PodGroupNotFound = "PodGroupNotFound"
	// PreBindFailed and BindFailed mean that the gang's last transaction failed. BindBackoff means that the rollback of
	// the last transaction is in progress, or the queue is paused during a search for an object that makes cycles panic.
	PreBindFailed = "PreBindFailed"
	BindFailed    = "BindFailed"
	BindBackoff   = "BindBackoff"
)

// PendingReason is the reason why a gang waits, as its PodGroup and its pods report it. As long as the cluster's state
// does not change, the text does not change.
type PendingReason struct {
	Reason, Message string
}

// pending is what a session knows about gangs that wait.
type pending struct {
	reasons map[api.JobID]PendingReason
	// explained are the explanations of gangs that were not placed.
	explained map[api.JobID]GangExplanation
	// categories maps pending reasons of plugins to their categories; it is read-only.
	categories map[string]PendingCategory
}

// SetPendingReason records why an action of this session did not place the gang.
func (ssn *Session) SetPendingReason(job api.JobID, reason PendingReason) {
	if ssn.pending.reasons == nil {
		ssn.pending.reasons = map[api.JobID]PendingReason{}
	}
	ssn.pending.reasons[job] = reason
}

// PendingReason returns why the gang waits, as far as actions have recorded it. Once the session closes, every gang
// that waits has a reason.
func (ssn *Session) PendingReason(job api.JobID) (PendingReason, bool) {
	reason, ok := ssn.pending.reasons[job]
	return reason, ok
}
