// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"cmp"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// beyondKeeping is how many times what the cluster has a promise must be so that nobody can keep it. What was let in rightly may be
// more than the cluster has: plugin overcommit lets in more, nodes may be away for a moment, and an autoscaler may bring more. Ten
// times as much is none of these.
const beyondKeeping = 10

// A gang that is let in before its pods exist keeps room for promiseFor: enough for the pods of a Volcano Job, and for a driver of Spark to
// start and make its executors. A namespace of which gangs kept room that long, one after another, and their pods never came has no such promises
// for noPromisesFor: pods are all that its gangs keep room by.
const (
	promiseFor    = 2 * time.Minute
	noPromisesFor = time.Hour
)

// promises is what this scheduler let in and has not seen pods for. A tenant writes the phase of a PodGroup and its minResources, so that neither
// says what was let in: upstream keeps room for both, out of which no other gang is let in.
type promises struct {
	letIn map[api.JobID]promise
	// lapsed are the namespaces of which gangs kept room for pods that never came.
	lapsed map[string]lapse
}

// lapse is for how long a namespace's gangs kept room for pods that never came, and when the last of these promises ended.
type lapse struct {
	kept time.Duration
	last time.Time
}

func newPromises() promises {
	return promises{letIn: map[api.JobID]promise{}, lapsed: map[string]lapse{}}
}

type promise struct {
	since     time.Time
	resources *api.Resource
	namespace string
}

// noteLetIn remembers that the gang is let in now. One that a tenant sends back, or deletes and makes again, has no more time than before.
func (p *promises) noteLetIn(job *api.JobInfo, now time.Time) {
	if job.PodGroup.Spec.MinResources == nil || p.broken(job.Namespace) {
		return
	}
	since := now
	if made, ok := p.letIn[job.UID]; ok {
		since = made.since
	}
	p.letIn[job.UID] = promise{since: since, resources: job.GetMinResources(), namespace: job.Namespace}
}

func (p *promises) broken(namespace string) bool { return p.lapsed[namespace].kept >= promiseFor }

// expire ends the promises of gangs that have their pods, of gangs that were given time enough for it, and of gangs that sessions no longer see:
// a user may have deleted one, so that counts for as long as it kept room.
func (p *promises) expire(ssn *framework.Session, now time.Time) {
	maps.DeleteFunc(p.lapsed, func(_ string, of lapse) bool { return now.Sub(of.last) >= noPromisesFor })
	maps.DeleteFunc(p.letIn, func(uid api.JobID, made promise) bool {
		job, kept := ssn.Jobs[uid], now.Sub(made.since)
		if job != nil && made.resources.LessEqual(asked(job), api.Zero) {
			return true
		}
		if job != nil && kept < promiseFor {
			return false
		}
		p.lapsed[made.namespace] = lapse{p.lapsed[made.namespace].kept + kept, now}
		return true
	})
	maps.DeleteFunc(p.letIn, func(_ api.JobID, made promise) bool { return p.broken(made.namespace) })
}

// asked is what the gang's pods ask for. No node may have that yet: an autoscaler makes nodes for pods that exist.
func asked(job *api.JobInfo) *api.Resource {
	sum := api.EmptyResource()
	for _, task := range job.Tasks {
		sum.Add(task.InitResreq)
	}
	return sum
}

// forgetPromises has the session count as the minResources of gangs that were let in no more than their pods ask for, or this scheduler
// let in a moment ago. It counts what they hold where that is more than beyondKeeping, where a plugin says that they never fit, and
// where the gangs of their queue ask for more than its capability together.
func (p *promises) forgetPromises(ssn *framework.Session, now time.Time) {
	largest := largestOf(ssn)
	p.expire(ssn, now)
	limited := map[api.QueueID][]*api.JobInfo{}
	for uid, job := range ssn.Jobs {
		if !promised(job) {
			continue
		}
		keepAtMost(job, backed(ssn, job, largest), p.letIn[uid].resources)
		switch {
		case !keepable(job.GetMinResources(), ssn.TotalResource) || ssn.NeverFits(job):
			framework.ReckonWithHoldings(job)
		case ssn.Queues[job.Queue] != nil && len(ssn.Queues[job.Queue].Queue.Spec.Capability) > 0:
			limited[job.Queue] = append(limited[job.Queue], job)
		}
	}
	for id, jobs := range limited {
		forgetBeyond(ssn.Queues[id].Queue.Spec.Capability, jobs)
	}
}

// keepAtMost lowers the minResources that the session counts to the larger of the two amounts, of which the second may be nil.
func keepAtMost(job *api.JobInfo, pods, letIn *api.Resource) {
	asked, most := job.GetMinResources(), pods.Clone()
	if letIn != nil {
		most.SetMaxResource(letIn)
	}
	if !asked.LessEqual(most, api.Zero) {
		asked.MinDimensionResource(most, api.Zero)
		framework.ReckonWith(job, asked)
	}
}

// backed is what the gang's pods ask for that hold a node or could have one. A pod's creator may name a node that does not exist, or ask for
// more than any node has.
func backed(ssn *framework.Session, job *api.JobInfo, largest *api.Resource) *api.Resource {
	sum := api.EmptyResource()
	for _, task := range job.Tasks {
		switch {
		case task.Status == api.Succeeded || task.Status == api.Failed || task.NodeName != "" && ssn.Nodes[task.NodeName] == nil:
		case api.AllocatedStatus(task.Status) || keepableTimes(1, task.InitResreq, largest):
			sum.Add(task.InitResreq)
		}
	}
	return sum
}

// largestOf is the most of each resource that a node has.
func largestOf(ssn *framework.Session) *api.Resource {
	largest := api.EmptyResource()
	for _, node := range ssn.Nodes {
		largest.SetMaxResource(node.Allocatable)
	}
	return largest
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

// promised is true if upstream's plugins keep room for what the gang's minResources are beyond what it holds.
func promised(job *api.JobInfo) bool {
	phase := job.PodGroup.Status.Phase
	return job.PodGroup.Spec.MinResources != nil && (phase == scheduling.PodGroupInqueue || phase == scheduling.PodGroupRunning)
}

// keepable is true if a cluster that has the total now may have what is promised one day. What is promised of a kind of which it
// has none holds up nobody but those who ask for that kind too, which none of them gets before there is some.
func keepable(promise, total *api.Resource) bool { return keepableTimes(beyondKeeping, promise, total) }

func keepableTimes(times float64, promise, total *api.Resource) bool {
	within := func(promise, total float64) bool { return total == 0 || promise <= times*total }
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
