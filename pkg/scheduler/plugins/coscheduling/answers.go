// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// answers implements the framework's interfaces for one session.
type answers struct{ session *session }

var (
	_ framework.GangGrouper           = answers{}
	_ framework.TopologyPlanGenerator = answers{}
	_ framework.Signer                = answers{}
	_ framework.JobSigner             = answers{}
)

// GangGroup implements framework.GangGrouper.
func (a answers) GangGroup(job *api.JobInfo) *binding.GangGroup { return a.session.gangGroup(job) }

// TopologyPlanner implements framework.TopologyPlanGenerator.
func (a answers) TopologyPlanner(job *api.JobInfo) (*framework.TopologyPlanner, error) {
	if a.session.network == nil {
		return nil, nil
	}
	return a.session.network.topologyPlanner(job)
}

// SignTask implements framework.Signer.
func (a answers) SignTask(task *api.TaskInfo) framework.VerdictScope {
	if a.SignJob(a.session.Jobs[task.Job]) == "" {
		return framework.NoVerdict
	}
	return framework.PerJob
}

// PodKeys implements framework.Signer.
func (a answers) PodKeys() framework.PodKeys { return framework.SomePodKeys() }

// SignJob implements framework.JobSigner.
func (a answers) SignJob(job *api.JobInfo) string {
	return a.session.reserved.jobKey(job) + a.session.network.jobKey(job)
}
