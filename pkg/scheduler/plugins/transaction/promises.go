// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// beyondKeeping is how many times what the cluster has a promise must be so that nobody can keep it. What was let in rightly may be
// more than the cluster has: plugin overcommit lets in more, nodes may be away for a moment, and an autoscaler may bring more. Ten
// times as much is none of these.
const beyondKeeping = 10

// forgetPromises has the session reckon with what they hold as the minResources of gangs that were let in and ask for more than
// beyondKeeping, and of those that a plugin says never fit. None such is let in: they were raised since, or their pods came only
// then. What is promised to them can never be theirs, and would keep all others from being let in.
func forgetPromises(ssn *framework.Session) {
	for _, job := range ssn.Jobs {
		if promised(job) && (!keepable(job.GetMinResources(), ssn.TotalResource) || ssn.NeverFits(job)) {
			framework.ReckonWithHoldings(job)
		}
	}
}

// promised is true if upstream's plugins keep room for what the gang's minResources are beyond what it holds.
func promised(job *api.JobInfo) bool {
	phase := job.PodGroup.Status.Phase
	return job.PodGroup.Spec.MinResources != nil && (phase == scheduling.PodGroupInqueue || phase == scheduling.PodGroupRunning)
}

// keepable is true if a cluster that has the total now may have what is promised one day. What is promised of a kind of which it
// has none holds up nobody but those who ask for that kind too, which none of them gets before there is some.
func keepable(promise, total *api.Resource) bool {
	within := func(promise, total float64) bool { return total == 0 || promise <= beyondKeeping*total }
	if !within(promise.MilliCPU, total.MilliCPU) || !within(promise.Memory, total.Memory) {
		return false
	}
	for name, amount := range promise.ScalarResources {
		if !within(amount, total.ScalarResources[name]) {
			return false
		}
	}
	return true
}
