// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// forgetPromises has the session reckon without the minResources of gangs that were let in and ask for more than the cluster
// has. None such is let in: they were raised since, or nodes have gone. What is promised to them can never be theirs, and
// would keep all others from being let in.
func forgetPromises(ssn *framework.Session) {
	for _, job := range ssn.Jobs {
		if promised(job) && !job.GetMinResources().LessEqual(ssn.TotalResource, api.Zero) {
			job.PodGroup.Spec.MinResources = nil
		}
	}
}

// promised says whether upstream's plugins keep room for what the gang's minResources are beyond what it holds.
func promised(job *api.JobInfo) bool {
	phase := job.PodGroup.Status.Phase
	return job.PodGroup.Spec.MinResources != nil && (phase == scheduling.PodGroupInqueue || phase == scheduling.PodGroupRunning)
}
