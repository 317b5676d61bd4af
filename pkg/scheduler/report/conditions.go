// SPDX-License-Identifier: Apache-2.0

package report

import (
	"volcano.sh/apis/pkg/apis/scheduling"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/conditions"
)

func setUnschedulable(status *scheduling.PodGroupStatus, reason, message string) {
	conditions.Set(status, "", scheduling.PodGroupUnschedulableType, reason, message)
}

func isUnschedulable(status *scheduling.PodGroupStatus) bool {
	return conditions.Find(status, scheduling.PodGroupUnschedulableType) != nil
}

func isScheduled(status *scheduling.PodGroupStatus) bool {
	return conditions.Find(status, scheduling.PodGroupScheduled) != nil
}

// timedOut returns the condition which says that the gang's waiting time has passed, so that other gangs can be admitted
// instead; nil if the gang has no such condition.
func timedOut(status *scheduling.PodGroupStatus) *scheduling.PodGroupCondition {
	if c := conditions.Find(status, gangs.TimeLimitCondition); c != nil && c.Reason == gangs.TimedOut {
		return c
	}
	return nil
}

// dropDelay removes the condition Unschedulable if it says that a member of the gang waits long in its bind transaction.
func dropDelay(status *scheduling.PodGroupStatus) {
	if c := conditions.Find(status, scheduling.PodGroupUnschedulableType); c != nil {
		switch binding.DelayKind(c.Reason) {
		case binding.StepWaits, binding.PreBindTimedOut, binding.RollbackStuck, binding.BindWaits:
			conditions.Drop(status, c.Type)
		}
	}
}
