// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// beyondKeeping is how many times what the cluster has a promise must be so that nobody can keep it. What was let in rightly may be
// more than the cluster has: plugin overcommit lets in more, nodes may be away for a moment, and an autoscaler may bring more. Ten
// times as much is none of these.
const beyondKeeping = 10

// forgetPromises has the session count as the minResources of gangs that were let in what they hold, where they ask for more than
// beyondKeeping, where a plugin says that they never fit, where all their members name nodes that do not exist, and where the gangs of their queue ask for more than its capability
// together. No such gang is let in: its minResources were raised since, or its pods came later. What is promised to it can never be
// its own, and would keep all others from being let in.
func forgetPromises(ssn *framework.Session) {
	limited := map[api.QueueID][]*api.JobInfo{}
	for _, job := range ssn.Jobs {
		switch {
		case !promised(job):
		case !keepable(job.GetMinResources(), ssn.TotalResource) || ssn.NeverFits(job) || onNoNode(ssn, job):
			framework.ReckonWithHoldings(job)
		case ssn.Queues[job.Queue] != nil && len(ssn.Queues[job.Queue].Queue.Spec.Capability) > 0:
			limited[job.Queue] = append(limited[job.Queue], job)
		}
	}
	for id, jobs := range limited {
		forgetBeyond(ssn.Queues[id].Queue.Spec.Capability, jobs)
	}
}

// forgetBeyond keeps the promises that are within the queue's capability together, the oldest gangs' first.
func forgetBeyond(capability v1.ResourceList, jobs []*api.JobInfo) {
	slices.SortFunc(jobs, func(a, b *api.JobInfo) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	most, kept := api.NewResource(capability), api.EmptyResource()
	for _, job := range jobs {
		sum := kept.Clone().Add(job.GetMinResources())
		within := func(name v1.ResourceName) bool { return sum.Get(name) <= most.Get(name) }
		if names := slices.Collect(maps.Keys(capability)); slices.ContainsFunc(names, func(name v1.ResourceName) bool { return !within(name) }) {
			framework.ReckonWithHoldings(job)
			continue
		}
		kept = sum
	}
}

// onNoNode reports whether all members of the gang are on nodes that do not exist. Whoever creates a pod may name its node.
func onNoNode(ssn *framework.Session, job *api.JobInfo) bool {
	for _, task := range job.Tasks {
		if task.NodeName == "" || ssn.Nodes[task.NodeName] != nil {
			return false
		}
	}
	return len(job.Tasks) > 0
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
