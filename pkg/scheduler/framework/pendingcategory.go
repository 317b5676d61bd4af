// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"cmp"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// PendingCategory classifies why a gang waits, in a fixed set of values that tenants do not control.
type PendingCategory string

// The categories.
const (
	// PendingUnseen is the time from the creation of the PodGroup to the first session of this process that saw it.
	PendingUnseen      PendingCategory = "unseen"
	PendingIncomplete  PendingCategory = "incomplete"
	PendingGated       PendingCategory = "gated"
	PendingGroup       PendingCategory = "group"
	PendingNotAdmitted PendingCategory = "not_admitted"
	PendingQueue       PendingCategory = "queue"
	PendingResources   PendingCategory = "resources"
	// PendingBackoff is a pause after a timeout or after a transaction that failed.
	PendingBackoff PendingCategory = "backoff"
	// PendingBinding is the time in which a bind transaction of the gang runs its pre-bind steps and Bindings.
	PendingBinding PendingCategory = "binding"
	PendingOther   PendingCategory = "other"
)

// PendingCategories lists all categories of reasons why gangs wait.
var PendingCategories = []PendingCategory{
	PendingUnseen, PendingIncomplete, PendingGated, PendingGroup, PendingNotAdmitted, PendingQueue, PendingResources, PendingBackoff, PendingBinding, PendingOther,
}

// PendingCategory returns the category of the reason.
func (ssn *Session) PendingCategory(reason PendingReason) PendingCategory {
	switch reason.Reason {
	case NotEnoughPods, NotEnoughPodsOfTask, PodGroupNotFound:
		return PendingIncomplete
	case SchedulingGated:
		return PendingGated
	case NotEnqueued:
		return PendingNotAdmitted
	case QueueFull, QueueNotOpen, QueueNotFound, QueueHasChildren:
		return PendingQueue
	case NotEnoughResources, NotTried:
		return PendingResources
	case BindBackoff, PreBindFailed, BindFailed:
		return PendingBackoff
	case string(binding.StepWaits), string(binding.PreBindTimedOut), string(binding.RollbackStuck), string(binding.BindWaits):
		return PendingBinding
	}
	return cmp.Or(ssn.pending.categories[reason.Reason], PendingOther)
}
