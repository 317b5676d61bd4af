// SPDX-License-Identifier: Apache-2.0

package report

import (
	"volcano.sh/apis/pkg/apis/scheduling"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
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

// isTimedOut reports whether the gang has returned to Pending because its waiting time has passed, so that other gangs
// can be admitted instead.
func isTimedOut(status *scheduling.PodGroupStatus) bool {
	c := conditions.Find(status, gangs.TimeLimitCondition)
	return c != nil && c.Reason == gangs.TimedOut
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
