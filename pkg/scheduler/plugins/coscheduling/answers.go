// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

var (
	_ framework.AdmissionVoter     = (*session)(nil)
	_ framework.GangGrouper        = (*session)(nil)
	_ framework.PlacementGenerator = (*session)(nil)
	_ framework.Signer             = (*session)(nil)
)

// Placement implements framework.PlacementGenerator.
func (s *session) Placement(job *api.JobInfo) (framework.Placement, error) {
	if s.network == nil {
		return framework.Placement{}, nil
	}
	planner, err := s.network.topologyPlanner(job)
	return framework.Placement{Planner: planner}, err
}

// SignTask implements framework.Signer.
func (s *session) SignTask(task *api.TaskInfo) framework.CacheScope {
	if s.SignJob(s.ssn.Jobs[task.Job]) == "" {
		return framework.Unaffected
	}
	return framework.PerJob
}

// PodKeys implements framework.Signer.
func (s *session) PodKeys() framework.PodKeys { return framework.SomePodKeys() }

// Unresolvable implements framework.Signer: evictions end no reservation, and move no gang to another domain. It returns
// false if the plugin has no predicate in this session.
func (s *session) Unresolvable() bool { return s.reserved != nil || s.network != nil }

// SignJob implements framework.Signer.
func (s *session) SignJob(job *api.JobInfo) string {
	return s.reserved.jobKey(job) + s.network.jobKey(job)
}
