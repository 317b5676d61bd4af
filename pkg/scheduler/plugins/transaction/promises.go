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

// beyondPromise limits promises, as a multiple of the cluster's total resources. A promise is the minResources of an
// admitted gang, which upstream's plugins reserve. A legitimate promise may exceed the total: plugin overcommit admits
// more, nodes may be unavailable for a moment, and an autoscaler may add nodes. None of these reasons explains ten
// times the total.
const beyondPromise = 10

// promiseFor is how long resources stay reserved for an admitted gang that has no pods. This is long enough for the
// pods of a Volcano Job, and for a Spark driver that starts and creates its executors. If gangs of a namespace had
// resources reserved for so long in total, and their pods never came, the namespace gets no more such reservations for
// noPromisesFor.
const (
	promiseFor    = 2 * time.Minute
	noPromisesFor = time.Hour
)

// promises records the gangs that this scheduler admitted and whose pods it has not seen yet. The PodGroup does not
// show which gangs were admitted, because a tenant can write its phase and minResources. Upstream trusts both fields:
// it reserves resources accordingly, and does not admit other gangs to these resources.
type promises struct {
	admitted map[api.JobID]promise
	// lapsed are the namespaces whose gangs had resources reserved for pods that never came.
	lapsed map[string]lapse
}

// lapse says for how long resources were reserved for a namespace's gangs whose pods never came, and when the last such
// reservation ended.
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

// recordAdmitted records that the gang is admitted now. A gang that is admitted again gets no more time: a tenant may
// make it pending again, or delete it and create it again.
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

// expire ends the promises of gangs that have their pods, of gangs whose time is over, and of gangs that sessions no
// longer see. In the last two cases, the time of the promise counts against the namespace. A deleted gang counts
// because a user may delete a gang before its time is over. A gang counts, too, if its pods cannot run (backed): a user
// may create such a pod to end the promise, and then the next gang.
func (p *promises) expire(ssn *framework.Session, now time.Time, largest func() *api.Resource) {
	maps.DeleteFunc(p.lapsed, func(_ string, of lapse) bool { return now.Sub(of.last) >= noPromisesFor })
	maps.DeleteFunc(p.admitted, func(uid api.JobID, made promise) bool {
		job, kept := ssn.Jobs[uid], now.Sub(made.since)
		complete := job != nil && made.resources.LessEqual(asked(job), api.Zero)
		if complete && made.resources.LessEqual(backed(ssn, job, largest()), api.Zero) {
			return true
		}
		if job != nil && !complete && kept < promiseFor {
			return false
		}
		p.lapsed[made.namespace] = lapse{p.lapsed[made.namespace].kept + kept, now}
		return true
	})
	maps.DeleteFunc(p.admitted, func(_ api.JobID, made promise) bool { return p.broken(made.namespace) })
}

// asked returns the sum of the requests of the gang's pods. Pods that fit no existing node count too, because an
// autoscaler may create nodes for them.
func asked(job *api.JobInfo) *api.Resource {
	sum := api.EmptyResource()
	for _, task := range job.Tasks {
		sum.Add(task.InitResreq)
	}
	return sum
}

// forgetPromises limits the minResources that the session counts for admitted gangs. The limit is the requests of the
// gang's pods, or the amounts that this scheduler admitted a moment ago. In three cases the session counts only the
// resources that the gang holds. First, the promise is more than beyondPromise times the cluster's total. Second, a
// plugin reports that the gang never fits. Third, the promises in the gang's queue together exceed the queue's
// capability.
func (p *promises) forgetPromises(ssn *framework.Session, now time.Time) {
	largest := sync.OnceValue(func() *api.Resource { return largestOf(ssn) })
	p.expire(ssn, now, largest)
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

// keepAtMost limits the minResources that the session counts for the gang to the larger of the amounts pods and
// admitted. admitted may be nil.
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

// backed returns the sum of the requests of the gang's pods that hold a node or could get one. It leaves out pods that
// cannot run, because a tenant may create pods that name a missing node or request more than any node has.
func backed(ssn *framework.Session, job *api.JobInfo, largest *api.Resource) *api.Resource {
	sum := api.EmptyResource()
	for _, task := range job.Tasks {
		switch {
		case task.Status == api.Succeeded || task.Status == api.Failed || task.NodeName != "" && ssn.Nodes[task.NodeName] == nil:
		case api.AllocatedStatus(task.Status):
			sum.Add(task.Resreq) // the cache limits it to what the node has
		case promisableTimes(1, task.InitResreq, largest):
			sum.Add(task.InitResreq)
		}
	}
	return sum
}

// largestOf returns, for each resource, the largest allocatable amount of any single node.
func largestOf(ssn *framework.Session) *api.Resource {
	largest := api.EmptyResource()
	for _, node := range ssn.Nodes {
		largest.SetMaxResource(node.Allocatable)
	}
	return largest
}

// forgetBeyond keeps promises up to the queue's capability, the oldest gangs first. For the other gangs, the session
// counts only the resources that they hold.
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

// promised reports whether upstream's plugins reserve the gang's minResources beyond the resources that the gang
// already holds.
func promised(job *api.JobInfo) bool {
	phase := job.PodGroup.Status.Phase
	return job.PodGroup.Spec.MinResources != nil && (phase == scheduling.PodGroupInqueue || phase == scheduling.PodGroupRunning)
}

// promisable reports whether a cluster with this total could ever satisfy the promise. It ignores resources that the
// cluster does not have at all. They block only gangs that request the same resource, and these gangs cannot run
// anyway.
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
