// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"slices"

	"volcano.sh/apis/pkg/apis/scheduling"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// dropConditionsOfCoscheduling removes from all PodGroups the conditions that say what plugin coscheduling does with the
// gang. It is for sessions without the plugin, which would otherwise stay as the plugin left them. What a gang has reached
// (gangs.SatisfiedCondition, gangs.WholeCondition) stays recorded, because the plugin needs it if it is configured again.
func dropConditionsOfCoscheduling(ssn *framework.Session) {
	ofPlugin := func(c scheduling.PodGroupCondition) bool {
		return c.Type == gangs.TimeLimitCondition || c.Type == gangs.InvalidSettingsCondition || c.Type == gangs.ReservationCondition
	}
	for _, job := range ssn.Jobs {
		if job.PodGroup != nil && slices.ContainsFunc(job.PodGroup.Status.Conditions, ofPlugin) {
			job.PodGroup.Status.Conditions = slices.DeleteFunc(slices.Clone(job.PodGroup.Status.Conditions), ofPlugin)
		}
	}
}
