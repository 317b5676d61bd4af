// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// beyondPromise is the multiple of the cluster's total beyond which a promise can never be kept. A promise is the minResources of an
// admitted gang, which upstream's plugins reserve. A legitimate promise may exceed the total: plugin overcommit admits more, nodes may
// be unavailable for a moment, and an autoscaler may add some. None of these explains ten times the total.
const beyondPromise = 10

// promiseFor is how long an admitted gang without pods keeps its promised resources. It is enough for the pods of a Volcano Job,
// and for a Spark driver to start and create its executors. A namespace whose gangs kept promises for that long in a row, while
// their pods never came, gets no more promises without pods for noPromisesFor.
const (
	promiseFor    = 2 * time.Minute
	noPromisesFor = time.Hour
)

// promises are the gangs that this scheduler admitted and whose pods it has not seen. A tenant can write the phase and minResources of
// a PodGroup, so neither shows which gangs were admitted. Upstream trusts both: it reserves resources accordingly, and does not admit
// other gangs to these resources.
type promises struct {
	admitted map[api.JobID]promise
	// lapsed are the namespaces whose gangs kept resources for pods that never came.
	lapsed map[string]lapse
}

// lapse is how long a namespace's gangs kept resources for pods that never came, and when the last such promise ended.
type lapse struct {
	kept time.Duration
	last time.Time
}

func newPromises() promises {
	return promises{admitted: map[api.JobID]promise{}, lapsed: map[string]lapse{}}
}

type promise struct {
	since     time.Time
	resources *api.Resource
	namespace string
}

// recordAdmitted records that the gang is admitted now. A gang that a tenant makes pending again, or deletes and creates again, gets no
// more time.
func (p *promises) recordAdmitted(job *api.JobInfo, now time.Time) {
	if job.PodGroup.Spec.MinResources == nil || p.broken(job.Namespace) {
		return
	}
	since := now
	if made, ok := p.admitted[job.UID]; ok {
		since = made.since
	}
	p.admitted[job.UID] = promise{since: since, resources: job.GetMinResources(), namespace: job.Namespace}
}

func (p *promises) broken(namespace string) bool { return p.lapsed[namespace].kept >= promiseFor }

// expire ends the promises of gangs that have their pods, of gangs whose time is over, and of gangs that sessions no longer see. The
// time of the last two counts for the namespace: a user may delete a gang before its time is over.
func (p *promises) expire(ssn *framework.Session, now time.Time) {
	maps.DeleteFunc(p.lapsed, func(_ string, of lapse) bool { return now.Sub(of.last) >= noPromisesFor })
	maps.DeleteFunc(p.admitted, func(uid api.JobID, made promise) bool {
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
	maps.DeleteFunc(p.admitted, func(_ api.JobID, made promise) bool { return p.broken(made.namespace) })
}

// asked returns the requests of the gang's pods, even if no node could hold them yet: an autoscaler creates nodes for
// existing pods.
func asked(job *api.JobInfo) *api.Resource {
	sum := api.EmptyResource()
	for _, task := range job.Tasks {
		sum.Add(task.InitResreq)
	}
	return sum
}

// forgetPromises limits the minResources that the session counts for admitted gangs to the requests of their pods, or to the
// amounts that this scheduler admitted a moment ago. It counts only the resources that the gang holds in three cases: the promise
// is more than beyondPromise times the cluster's total, a plugin reports that the gang never fits, or the gangs of the queue
// together exceed its capability.
func (p *promises) forgetPromises(ssn *framework.Session, now time.Time) {
	largest := sync.OnceValue(func() *api.Resource { return largestOf(ssn) })
	p.expire(ssn, now)
	limited := map[api.QueueID][]*api.JobInfo{}
	for uid, job := range ssn.Jobs {
		if !promised(job) {
			continue
		}
		keepAtMost(job, backed(ssn, job, largest()), p.admitted[uid].resources)
		switch {
		case !promisable(job.GetMinResources(), ssn.TotalResource) || ssn.Infeasible(job):
			framework.CapMinResources(job)
		case ssn.Queues[job.Queue] != nil && len(ssn.Queues[job.Queue].Queue.Spec.Capability) > 0:
			limited[job.Queue] = append(limited[job.Queue], job)
		}
	}
	for id, jobs := range limited {
		forgetBeyond(ssn.Queues[id].Queue.Spec.Capability, jobs)
	}
}

// keepAtMost lowers the minResources that the session counts to the larger of the two amounts. admitted may be nil.
func keepAtMost(job *api.JobInfo, pods, admitted *api.Resource) {
	asked, most := job.GetMinResources(), pods.Clone()
	if admitted != nil {
		most.SetMaxResource(admitted)
	}
	if !asked.LessEqual(most, api.Zero) {
		asked.MinDimensionResource(most, api.Zero)
		framework.SetMinResources(job, asked)
	}
}

// backed returns the requests of the gang's pods that hold a node or could have one. A pod's creator may name a node that does not
// exist, or request more than any node has.
func backed(ssn *framework.Session, job *api.JobInfo, largest *api.Resource) *api.Resource {
	sum := api.EmptyResource()
	for _, task := range job.Tasks {
		switch {
		case task.Status == api.Succeeded || task.Status == api.Failed || task.NodeName != "" && ssn.Nodes[task.NodeName] == nil:
		case api.AllocatedStatus(task.Status) || promisableTimes(1, task.InitResreq, largest):
			sum.Add(task.InitResreq)
		}
	}
	return sum
}

// largestOf returns the largest amount of each resource on any one node.
func largestOf(ssn *framework.Session) *api.Resource {
	largest := api.EmptyResource()
	for _, node := range ssn.Nodes {
		largest.SetMaxResource(node.Allocatable)
	}
	return largest
}

// forgetBeyond keeps the promises that together are within the queue's capability, the oldest gangs first.
func forgetBeyond(capability v1.ResourceList, jobs []*api.JobInfo) {
	slices.SortFunc(jobs, func(a, b *api.JobInfo) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	most, kept := api.NewResource(capability), api.EmptyResource()
	for _, job := range jobs {
		sum := kept.Clone().Add(job.GetMinResources())
		within := func(name v1.ResourceName) bool { return sum.Get(name) <= most.Get(name) }
		if names := slices.Collect(maps.Keys(capability)); slices.ContainsFunc(names, func(name v1.ResourceName) bool { return !within(name) }) {
			framework.CapMinResources(job)
			continue
		}
		kept = sum
	}
}

// promised reports whether upstream's plugins keep resources for the gang's minResources beyond the resources that it holds.
func promised(job *api.JobInfo) bool {
	phase := job.PodGroup.Status.Phase
	return job.PodGroup.Spec.MinResources != nil && (phase == scheduling.PodGroupInqueue || phase == scheduling.PodGroupRunning)
}

// promisable reports whether the cluster could ever satisfy the promise, given its total. A promised kind of resource that the
// cluster does not have is ignored: it blocks only gangs that ask for the same kind, and they cannot run anyway.
func promisable(promise, total *api.Resource) bool {
	return promisableTimes(beyondPromise, promise, total)
}

func promisableTimes(times float64, promise, total *api.Resource) bool {
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
