// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// Mistaken is the type of the condition of a PodGroup with invalid settings.
const Mistaken scheduling.PodGroupConditionType = "InvalidGangSettings"

// mistaken is the reason of that condition, and of the event.
const mistaken = string(Mistaken)

// reportMistakes reports on the PodGroup which settings are invalid, and what applies instead.
func (s *session) reportMistakes(g *gang) {
	if len(g.mistakes) == 0 {
		g.dropCondition(Mistaken)
		return
	}
	var texts []string
	for _, m := range g.mistakes {
		texts = append(texts, m.String())
	}
	message := brief.Text(strings.Join(texts, "; "))
	if s.setCondition(g, Mistaken, mistaken, message) {
		s.RecordPodGroupEvent(g.PodGroup, v1.EventTypeWarning, mistaken, message)
	}
}
