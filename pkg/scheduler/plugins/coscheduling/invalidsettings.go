// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
)

// InvalidSettings is the type of the condition of a PodGroup with invalid settings.
const InvalidSettings scheduling.PodGroupConditionType = gangs.InvalidSettingsCondition

// invalidReason is the reason of the condition InvalidSettings, and of the event that reports invalid settings.
const invalidReason = string(InvalidSettings)

// reportInvalidSettings reports on the PodGroup which of the gang's settings are invalid, and which values apply instead.
func (s *session) reportInvalidSettings(g *gang) {
	if len(g.invalid) == 0 {
		conditions.Drop(&g.PodGroup.Status, InvalidSettings)
		return
	}
	var texts []string
	for _, m := range g.invalid {
		texts = append(texts, m.String())
	}
	message := brief.Text(strings.Join(texts, "; "))
	if conditions.Set(&g.PodGroup.Status, s.ssn.UID, InvalidSettings, invalidReason, message) {
		s.ssn.RecordPodGroupEvent(g.PodGroup, v1.EventTypeWarning, invalidReason, message)
	}
}
