// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// answers implements the framework's interfaces for one session.
type answers struct {
	framework.DefaultSigner
	session *session
}

var (
	_ framework.GangGrouper        = answers{}
	_ framework.PlacementGenerator = answers{}
	_ framework.Signer             = answers{}
)

// GangGroup implements framework.GangGrouper.
func (a answers) GangGroup(job *api.JobInfo) *binding.GangGroup { return a.session.gangGroup(job) }

// Placement implements framework.PlacementGenerator.
func (a answers) Placement(job *api.JobInfo) (framework.Placement, error) {
	if a.session.network == nil {
		return framework.Placement{}, nil
	}
	planner, err := a.session.network.topologyPlanner(job)
	return framework.Placement{Planner: planner}, err
}

// SignTask implements framework.Signer.
func (a answers) SignTask(task *api.TaskInfo) framework.CacheScope {
	if a.SignJob(a.session.Jobs[task.Job]) == "" {
		return framework.Unaffected
	}
	return framework.PerJob
}

// PodKeys implements framework.Signer.
func (a answers) PodKeys() framework.PodKeys { return framework.SomePodKeys() }

// SignJob implements framework.Signer.
func (a answers) SignJob(job *api.JobInfo) string {
	return a.session.reserved.jobKey(job) + a.session.network.jobKey(job)
}
