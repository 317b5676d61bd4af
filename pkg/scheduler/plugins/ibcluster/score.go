// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// The parts of a group's score before the weight. How full the group becomes is worth up to fillScore. The gang's
// current group, and the group to which its members are nominated, are worth more than that.
const (
	fillScore      = 100
	nominatedScore = 200
	memberScore    = 400
)

// ScoreNodeGroup implements framework.PlacementScorer.
//
// With strategy tightest, the score grows with the share of the group's room that the gang takes: a fuller group is
// better, which leaves the largest groups whole for gangs that need them. With strategy emptiest, it grows with the
// share that remains.
func (s *session) ScoreNodeGroup(job *api.JobInfo, trial *framework.NodeGroupTrial) (float64, error) {
	if s.requests[job.UID] == nil {
		return 0, nil
	}
	fill := trial.Fill
	if s.plugin.strategy == emptiest {
		fill = 1 - fill
	}
	p := s.scopeOf(job)
	score := fillScore*fill + part(nominatedScore, p.nominated[trial.Group], len(job.Tasks)) +
		part(memberScore, p.members[trial.Group], len(job.Tasks))
	return s.plugin.weight * score, nil
}

// BeforeTrial implements framework.PlacementScorer.
func (s *session) BeforeTrial() bool { return true }

// part returns worth for a group that has all of the gang's members, between worth/2 and worth for a group that has
// some, and 0 for a group that has none.
func part(worth float64, has, all int) float64 {
	if has == 0 {
		return 0
	}
	return worth * (1 + float64(has)/float64(all)) / 2
}
