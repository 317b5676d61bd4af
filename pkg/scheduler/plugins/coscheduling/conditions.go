// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// setCondition sets the condition of type kind on the PodGroup. news reports whether the condition is new, or its
// reason or message changed. The condition's time is in whole seconds, as the API server stores it.
func setCondition(pg *api.PodGroup, session types.UID, kind scheduling.PodGroupConditionType, reason, message string) (news bool) {
	condition := scheduling.PodGroupCondition{
		Type: kind, Status: v1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: metav1.Now().Rfc3339Copy(), TransitionID: string(session),
	}
	known := conditionOf(pg, kind)
	if known == nil {
		pg.Status.Conditions = append(pg.Status.Conditions, condition)
		return true
	}
	if news = known.Reason != reason || known.Message != message; news {
		*known = condition
	}
	return news
}

// conditionOf returns the PodGroup's condition of type kind; nil if the PodGroup has no such condition.
func conditionOf(pg *api.PodGroup, kind scheduling.PodGroupConditionType) *scheduling.PodGroupCondition {
	conditions := pg.Status.Conditions
	if i := slices.IndexFunc(conditions, func(c scheduling.PodGroupCondition) bool { return c.Type == kind }); i >= 0 {
		return &conditions[i]
	}
	return nil
}

// dropConditionsOfSettings removes the conditions that only gangs with settings have. The user may have removed the
// settings.
func dropConditionsOfSettings(pg *api.PodGroup) {
	if pg == nil {
		return
	}
	ofSettings := func(c scheduling.PodGroupCondition) bool {
		return c.Type == TimeLimit || c.Type == InvalidSettings || c.Type == Satisfied || c.Type == Whole
	}
	if slices.ContainsFunc(pg.Status.Conditions, ofSettings) {
		pg.Status.Conditions = slices.DeleteFunc(slices.Clone(pg.Status.Conditions), ofSettings)
	}
}

func dropCondition(pg *api.PodGroup, kind scheduling.PodGroupConditionType) {
	if conditionOf(pg, kind) == nil {
		return
	}
	pg.Status.Conditions = slices.DeleteFunc(slices.Clone(pg.Status.Conditions), func(c scheduling.PodGroupCondition) bool { return c.Type == kind })
}
