// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// The largest values of the parts of a node group's score, before the weight is applied. fillScore is for how full the gang
// makes the node group. nominatedScore and memberScore are for a node group that already has nominated or placed
// members of the gang.
const (
	fillScore      = 100
	nominatedScore = 200
	memberScore    = 400
)

// ScoreNodeGroup implements framework.PlacementScorer.
//
// With strategy tightest, the score grows with the part of the node group's free capacity that the gang takes. This
// leaves the emptiest node groups for gangs that need a whole one. With strategy emptiest, the score grows with the
// part that stays free.
func (s *session) ScoreNodeGroup(job *api.JobInfo, trial *framework.NodeGroupTrial) (float64, error) {
	if s.requests[job.UID] == nil {
		return 0, nil
	}
	fill := trial.Fill
	if s.settings.strategy == emptiest {
		fill = 1 - fill
	}
	p := s.scopeOf(job)
	score := fillScore*fill + part(nominatedScore, p.nominated[trial.Group], len(job.Tasks)) +
		part(memberScore, p.members[trial.Group], len(job.Tasks))
	return s.settings.weight * score, nil
}

// BeforeTrial implements framework.PlacementScorer.
func (s *session) BeforeTrial() bool { return true }

// part returns worth if the node group has all of the gang's members, a value between worth/2 and worth if it has
// some of them, and 0 if it has none.
func part(worth float64, has, all int) float64 {
	if has == 0 {
		return 0
	}
	return worth * (1 + float64(has)/float64(all)) / 2
}
