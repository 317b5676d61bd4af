// SPDX-License-Identifier: Apache-2.0

// Package conditions sets, finds and removes the conditions of PodGroups, and the condition of evicted pods. All conditions of
// PodGroups that this project writes have status True: a condition that does not hold is removed.
package conditions

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling"
)

// Set sets the condition of type kind. It reports whether the condition is new: it did not exist, or its text changed
// (Same).
//
// LastTransitionTime is the time since which the condition has its text, in whole seconds, as the API server stores it.
// TransitionID is the UID of the session that set the condition last; empty if that was outside of a session. Upstream
// computes a PodGroup's phase from the condition Unschedulable only if the condition has the UID of the current session.
func Set(status *scheduling.PodGroupStatus, session types.UID, kind scheduling.PodGroupConditionType, reason, message string) (isNew bool) {
	condition := scheduling.PodGroupCondition{
		Type: kind, Status: v1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: metav1.Now().Rfc3339Copy(), TransitionID: string(session),
	}
	known := Find(status, kind)
	if known == nil {
		status.Conditions = append(status.Conditions, condition)
		return true
	}
	isNew = !Same(*known, condition)
	if !isNew {
		condition.LastTransitionTime = known.LastTransitionTime
	}
	*known = condition
	return isNew
}

// KeepTimes gives each condition of the status whose text is the same before (Same) the time that it had before.
// Plugins of upstream set the conditions Scheduled and Unschedulable in each session with another time.
func KeepTimes(status *scheduling.PodGroupStatus, before scheduling.PodGroupStatus) {
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		if known := Find(&before, condition.Type); known != nil && Same(*known, *condition) {
			condition.LastTransitionTime = known.LastTransitionTime
		}
	}
}

// Find returns the condition of type kind; nil if the status has no such condition. The caller may change it.
func Find(status *scheduling.PodGroupStatus, kind scheduling.PodGroupConditionType) *scheduling.PodGroupCondition {
	if i := slices.IndexFunc(status.Conditions, func(c scheduling.PodGroupCondition) bool { return c.Type == kind }); i >= 0 {
		return &status.Conditions[i]
	}
	return nil
}

// Drop removes the conditions of the given types.
func Drop(status *scheduling.PodGroupStatus, kinds ...scheduling.PodGroupConditionType) {
	dropped := func(c scheduling.PodGroupCondition) bool { return slices.Contains(kinds, c.Type) }
	if slices.ContainsFunc(status.Conditions, dropped) {
		status.Conditions = slices.DeleteFunc(slices.Clone(status.Conditions), dropped)
	}
}

// Same reports whether two conditions say the same: they have the same type, status, reason and message.
func Same(a, b scheduling.PodGroupCondition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}
