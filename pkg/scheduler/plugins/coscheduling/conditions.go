// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
)

// setCondition sets the condition on the gang's PodGroup, and reports whether its reason or message changed. The condition's time
// is in whole seconds, as the API server stores it.
func (s *session) setCondition(g *gang, kind scheduling.PodGroupConditionType, reason, message string) (news bool) {
	condition := scheduling.PodGroupCondition{
		Type: kind, Status: v1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: metav1.Now().Rfc3339Copy(), TransitionID: string(s.UID),
	}
	status := &g.PodGroup.Status
	for i := range status.Conditions {
		if known := &status.Conditions[i]; known.Type == kind {
			if news = known.Reason != reason || known.Message != message; news {
				status.Conditions[i] = condition
			}
			return news
		}
	}
	status.Conditions = append(status.Conditions, condition)
	return true
}

func (g *gang) hasCondition(kind scheduling.PodGroupConditionType) bool {
	return g.condition(kind) != nil
}

// condition returns the gang's condition of that type; nil if it has none.
func (g *gang) condition(kind scheduling.PodGroupConditionType) *scheduling.PodGroupCondition {
	conditions := g.PodGroup.Status.Conditions
	if i := slices.IndexFunc(conditions, func(c scheduling.PodGroupCondition) bool { return c.Type == kind }); i >= 0 {
		return &conditions[i]
	}
	return nil
}

func (g *gang) dropCondition(kind scheduling.PodGroupConditionType) {
	if !g.hasCondition(kind) {
		return
	}
	status := &g.PodGroup.Status
	status.Conditions = slices.DeleteFunc(slices.Clone(status.Conditions), func(c scheduling.PodGroupCondition) bool { return c.Type == kind })
}
