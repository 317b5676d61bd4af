// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// A promise is the minResources of an admitted gang. Upstream's plugins reserve them: they do not admit other gangs to
// these resources, for as long as the gang waits. A tenant could so keep all others from idle resources. Here an admitted
// gang counts for upstream's plugins with the resources that it holds, and promises limit only the namespace itself: its
// gangs that are admitted and not placed ask together for no more than the cluster has, and for no more than the capability
// of each queue (refuse). Otherwise all its gangs would be admitted, and controllers would create all their pods.
//
// A tenant can write the phase and the minResources of a PodGroup. So a promise counts only if this process admitted the
// gang, and only up to the admitted amounts. A scheduler that starts knows none of the promises of its predecessor.

// shortestPromise is the shortest duration of a promise that is not fulfilled, even if the gang is deleted, moved to another
// queue, returned to Pending or made smaller. Within one session, plugins capacity and proportion count a gang that they
// admit against all others of the queue. A tenant could otherwise have one gang admitted in each session, and keep others
// out of the queue.
const shortestPromise = 10 * time.Second

// promises are the promises to gangs that this process admitted. A promise ends when the gang holds the resources. After
// shortestPromise it also ends when the gang no longer asks for them, or is no longer an admitted gang of its queue.
type promises struct {
	admitted map[api.JobID]*promise
	// sums has the promised resources that gangs do not hold yet.
	sums map[promisedIn]*api.Resource
}

// promisedIn identifies a namespace's gangs in the queue and its child queues, or in the whole cluster if queue is empty.
type promisedIn struct {
	namespace string
	queue     api.QueueID
}

type promise struct {
	namespace string
	queue     api.QueueID
	podGroup  types.UID
	// since is when the gang was admitted. If it was admitted again before the session saw the new phase, it is the first
	// time.
	since time.Time
	// resources are the minResources for which the gang was admitted, less amounts that the gang no longer asked for
	// later.
	resources *api.Resource
	// seen reports whether a session has seen the gang admitted.
	seen bool
	// fulfilled reports whether members of the gang have held all promised resources, some perhaps while they were being
	// bound, and others until they succeeded.
	fulfilled bool
}

func newPromises() promises {
	return promises{admitted: map[api.JobID]*promise{}, sums: map[promisedIn]*api.Resource{}}
}

// recordAdmitted records that the gang is admitted now, and that its minResources are promised. In the rest of the
// session upstream's plugins count the gang with the resources that it holds, if they count it after the call.
func (p *promises) recordAdmitted(ssn *framework.Session, job *api.JobInfo, now time.Time) {
	if job.PodGroup.Spec.MinResources == nil {
		return
	}
	made := &promise{namespace: job.Namespace, queue: job.Queue, podGroup: job.PodGroup.UID, since: now, resources: asks(ssn, job)}
	if before := p.admitted[job.UID]; before != nil {
		made.since = before.since
	} else {
		p.add(ssn, made, job.Allocated)
	}
	p.admitted[job.UID] = made
	framework.LimitMinResources(job, api.EmptyResource())
}

// add adds the promised resources to the sums, less those that the gang holds.
func (p *promises) add(ssn *framework.Session, made *promise, held *api.Resource) {
	waitsFor := api.ExceededPart(made.resources, held)
	for _, queue := range levels(ssn, made.queue) {
		in := promisedIn{made.namespace, queue}
		if p.sums[in] == nil {
			p.sums[in] = api.EmptyResource()
		}
		p.sums[in].Add(waitsFor)
	}
}

// levels returns the queues that count the tasks of the queue, and "" for the cluster.
func levels(ssn *framework.Session, queue api.QueueID) []api.QueueID {
	return append(ssn.QueueUse.Levels(queue), "")
}

// asks returns the amounts that upstream's plugins count for the gang: minResources less the requests of pods with
// scheduling gates. Resources that no node has, such as limits.cpu of a quota, are left out: no pod ever holds them.
func asks(ssn *framework.Session, job *api.JobInfo) *api.Resource {
	asked := job.DeductSchGatedResources(job.GetMinResources())
	maps.DeleteFunc(asked.ScalarResources, func(name v1.ResourceName, _ float64) bool { return ssn.TotalResource.Get(name) == 0 })
	return asked
}

// limit ends promises, and limits the minResources that the session counts for admitted gangs to the resources that they
// hold.
func (p *promises) limit(ssn *framework.Session, now time.Time) {
	p.update(ssn, now)
	for _, job := range ssn.Jobs {
		if promised(job) {
			framework.LimitMinResources(job, api.EmptyResource())
		}
	}
}

// update ends promises and adds up the others. Resources that members hold while they are being bound stay promised,
// because a bind may fail.
func (p *promises) update(ssn *framework.Session, now time.Time) {
	clear(p.sums)
	for uid, made := range p.admitted {
		job := ssn.Jobs[uid]
		admitted := job != nil && job.PodGroup.UID == made.podGroup && job.Queue == made.queue && promised(job)
		ends, held := !admitted, api.EmptyResource()
		if admitted {
			made.seen, held = true, job.Allocated
			everHeld := held.Clone()
			for _, task := range job.TaskStatusIndex[api.Succeeded] {
				everHeld.Add(task.Resreq)
			}
			holds := made.resources.LessEqual(everHeld, api.Zero)
			made.fulfilled = made.fulfilled || holds
			ends = holds && len(job.TaskStatusIndex[api.Binding]) == 0
		}
		young := now.Sub(made.since) < shortestPromise
		switch {
		case ends && (made.fulfilled || !young):
			delete(p.admitted, uid)
		case young:
			p.add(ssn, made, held)
		default:
			made.resources.MinDimensionResource(job.DeductSchGatedResources(job.GetMinResources()), api.Zero) // if the gang asks for less once, only the lower amount stays promised
			if !ssn.Infeasible(job) {
				p.add(ssn, made, held)
			}
		}
	}
}

// admits reports whether the gang is admitted without asking other plugins: it was admitted, and the session does not see
// the new phase yet.
func (p *promises) admits(job *api.JobInfo) bool {
	made := p.admitted[job.UID]
	return made != nil && made.podGroup == job.PodGroup.UID && made.queue == job.Queue && !made.seen
}

// refuse returns why the gang waits for admission although upstream's plugins may admit it; empty if it does not.
func (p *promises) refuse(ssn *framework.Session, job *api.JobInfo) string {
	if p.admitted[job.UID] != nil {
		return fmt.Sprintf("a gang of this name was admitted, and deleted, moved or returned to Pending before it was placed; it can be admitted again %s after that admission", shortestPromise)
	}
	if job.PodGroup.Spec.MinResources == nil {
		return ""
	}
	asked := asks(ssn, job)
	for _, queue := range levels(ssn, job.Queue) {
		sum := p.sums[promisedIn{job.Namespace, queue}]
		if sum == nil {
			continue
		}
		for _, name := range slices.Sorted(slices.Values(asked.ResourceNames())) {
			wants, waitFor, limit := asked.Get(name), sum.Get(name), limitOf(ssn, queue, name)
			if waitFor == 0 || wants+waitFor <= limit {
				continue
			}
			where := "the cluster"
			if queue != "" {
				where = "the capability of queue " + string(queue)
			}
			of := func(amount float64) string { return framework.Quantity(name, amount) }
			return fmt.Sprintf("admitted gangs of namespace %s already wait for %s %s of %s in %s, and minResources asks for %s", job.Namespace, name, of(waitFor), of(limit), where, of(wants))
		}
	}
	return ""
}

// limitOf returns how much of the resource the queue may use, or all queues together if queue is empty.
func limitOf(ssn *framework.Session, queue api.QueueID, name v1.ResourceName) float64 {
	if queue == "" {
		return ssn.TotalResource.Get(name)
	}
	info := ssn.Queues[queue]
	if info == nil {
		return math.Inf(1)
	}
	if _, limited := info.Queue.Spec.Capability[name]; !limited {
		return math.Inf(1)
	}
	return api.NewResource(info.Queue.Spec.Capability).Get(name)
}

// promised reports whether upstream's plugins reserve the gang's minResources beyond the resources that the gang
// already holds.
func promised(job *api.JobInfo) bool {
	phase := job.PodGroup.Status.Phase
	return phase == scheduling.PodGroupInqueue || phase == scheduling.PodGroupRunning
}
