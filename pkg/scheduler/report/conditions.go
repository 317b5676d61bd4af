// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"volcano.sh/apis/pkg/apis/scheduling"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

func condition(kind scheduling.PodGroupConditionType, reason, message string) scheduling.PodGroupCondition {
	return scheduling.PodGroupCondition{
		Type: kind, Status: v1.ConditionTrue, Reason: reason, Message: message,
		LastTransitionTime: metav1.Now(), TransitionID: string(uuid.NewUUID()),
	}
}

func unschedulable(reason, message string) scheduling.PodGroupCondition {
	return condition(scheduling.PodGroupUnschedulableType, reason, message)
}

func setCondition(status *scheduling.PodGroupStatus, condition scheduling.PodGroupCondition) {
	for i, c := range status.Conditions {
		if c.Type == condition.Type {
			status.Conditions[i] = condition
			return
		}
	}
	status.Conditions = append(status.Conditions, condition)
}

func removeCondition(status *scheduling.PodGroupStatus, drop func(scheduling.PodGroupCondition) bool) {
	kept := status.Conditions[:0:0]
	for _, c := range status.Conditions {
		if !drop(c) {
			kept = append(kept, c)
		}
	}
	status.Conditions = kept
}

func hasCondition(status scheduling.PodGroupStatus, is func(scheduling.PodGroupCondition) bool) bool {
	return slices.ContainsFunc(status.Conditions, is)
}

func isUnschedulable(c scheduling.PodGroupCondition) bool {
	return c.Type == scheduling.PodGroupUnschedulableType
}

func isScheduled(c scheduling.PodGroupCondition) bool { return c.Type == scheduling.PodGroupScheduled }

func isIneffective(c scheduling.PodGroupCondition) bool { return c.Type == IneffectiveFields }

// isTimedOut reports whether the condition says that the gang's waiting time has passed, so that other gangs can be
// admitted instead.
func isTimedOut(c scheduling.PodGroupCondition) bool {
	return c.Type == gangs.TimeLimitCondition && c.Reason == gangs.TimedOut
}

// isDelay reports whether the condition says that a member of the gang waits long in its bind transaction.
func isDelay(c scheduling.PodGroupCondition) bool {
	switch binding.DelayKind(c.Reason) {
	case binding.StepWaits, binding.PreBindTimedOut, binding.RollbackStuck, binding.BindWaits:
		return isUnschedulable(c)
	}
	return false
}
