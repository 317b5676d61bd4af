// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"fmt"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// A promise is the minResources of an admitted gang, which upstream's plugins reserve: they do not admit other gangs to
// these resources. Upstream trusts the phase and the minResources of the PodGroup, and a tenant can write both. So a
// promise counts only if this process admitted the gang, and only up to the admitted amounts. A scheduler that starts
// knows none of the promises of its predecessor.
//
// A promise must not keep the gangs of other tenants from idle resources for long, whether its gang has no pods, has pods
// that fit nowhere, or waits for the whole cluster to become idle. If the promises of a namespace did so for promiseFor in
// total, then they reserve nothing until for noPromisesFor they have not done it again.

const (
	// promiseFor is how long the promises of a namespace may keep gangs of other namespaces from idle resources. In this
	// time the controller creates some hundred pods of a Volcano Job.
	promiseFor = 10 * time.Second
	// noPromisesFor is how long the promises of a namespace reserve nothing after they last kept other gangs from idle
	// resources.
	noPromisesFor = time.Hour
	// longestGap limits the time between two sessions that counts against a namespace. A scheduler that did not run
	// sessions for minutes admitted no gang.
	longestGap = promiseFor / 4
)

// promises are the promises to gangs that this process admitted. A promise ends when the gang holds the resources, no
// longer asks for them, or is no longer an admitted gang of its queue.
type promises struct {
	admitted map[api.JobID]*promise
	// inTheWay has the namespaces whose promises kept gangs of other namespaces from idle resources.
	inTheWay map[string]inTheWay
	// sums has, by namespace, the sum of the promised resources that gangs do not hold yet.
	sums map[string]*api.Resource
	// refused has the gangs that the previous session did not admit, except those whose queue was full.
	refused map[api.JobID]bool
	// last is the time of the previous session, and idle the sum of idle resources when it opened; nil if there were no
	// promises.
	last time.Time
	idle *api.Resource
}

type promise struct {
	namespace string
	queue     api.QueueID
	// resources are the minResources for which the gang was admitted, less amounts that the gang no longer asked for
	// later.
	resources *api.Resource
}

// inTheWay says for how long in total promises of a namespace kept other gangs from idle resources, and when they last
// did.
type inTheWay struct {
	total time.Duration
	last  time.Time
}

func newPromises() promises {
	return promises{
		admitted: map[api.JobID]*promise{}, inTheWay: map[string]inTheWay{},
		sums: map[string]*api.Resource{}, refused: map[api.JobID]bool{},
	}
}

// recordAdmitted records that the gang is admitted now, and that its minResources are promised. If the promises of its
// namespace count no longer, its minResources also reserve nothing in the rest of this session. Upstream's plugins add
// them up after the call.
func (p *promises) recordAdmitted(ssn *framework.Session, job *api.JobInfo) {
	if job.PodGroup.Spec.MinResources == nil {
		return
	}
	made := &promise{job.Namespace, job.Queue, asks(ssn, job)}
	p.admitted[job.UID] = made
	p.add(made)
	if !p.count(job.Namespace) {
		framework.LimitMinResources(job, api.EmptyResource())
	}
}

func (p *promises) add(made *promise) {
	if p.sums[made.namespace] == nil {
		p.sums[made.namespace] = api.EmptyResource()
	}
	p.sums[made.namespace].Add(made.resources)
}

// asks returns the amounts that upstream's plugins count for the gang: minResources less the requests of pods with
// scheduling gates. Resources that no node has, such as limits.cpu of a quota, are left out: no pod ever holds them.
func asks(ssn *framework.Session, job *api.JobInfo) *api.Resource {
	asked := job.DeductSchGatedResources(job.GetMinResources())
	maps.DeleteFunc(asked.ScalarResources, func(name v1.ResourceName, _ float64) bool { return ssn.TotalResource.Get(name) == 0 })
	return asked
}

// limit ends promises, and limits the minResources that the session counts for admitted gangs to the resources that they
// hold or have been promised.
func (p *promises) limit(ssn *framework.Session, now time.Time) {
	p.update(ssn)
	p.charge(ssn, now)
	for uid, job := range ssn.Jobs {
		if !promised(job) {
			continue
		}
		most := api.EmptyResource()
		if made := p.admitted[uid]; made != nil && p.count(made.namespace) && !ssn.Infeasible(job) {
			most = job.GetSchGatedPodResources().Add(made.resources) // upstream subtracts the requests of gated pods
		}
		framework.LimitMinResources(job, most)
	}
}

// count reports whether the promises of the namespace reserve resources.
func (p *promises) count(namespace string) bool { return p.inTheWay[namespace].total < promiseFor }

// refuse returns why the gang waits for admission until other gangs of its namespace are placed; empty if it does not. It
// waits if the promises of the namespace count no longer, and are together more than the cluster has. Otherwise all gangs
// of the namespace would be admitted, and controllers would create all their pods.
func (p *promises) refuse(ssn *framework.Session, job *api.JobInfo) string {
	sum := p.sums[job.Namespace]
	if sum == nil || p.count(job.Namespace) || asks(ssn, job).Add(sum).LessEqual(ssn.TotalResource, api.Zero) {
		return ""
	}
	return fmt.Sprintf("admitted gangs of namespace %s already wait for as much as the cluster has; this one is admitted when enough of them are placed or deleted", job.Namespace)
}

// update ends the promises of gangs that hold the resources, no longer ask for them, or are no longer admitted in
// their queue. Resources that members hold while they are being bound must stay promised, because a bind may fail.
func (p *promises) update(ssn *framework.Session) {
	clear(p.sums)
	for uid, made := range p.admitted {
		job := ssn.Jobs[uid]
		if job == nil || !promised(job) || job.Queue != made.queue {
			delete(p.admitted, uid)
			continue
		}
		made.resources.MinDimensionResource(asks(ssn, job), api.Zero) // if the gang asks for less once, only the lower amount stays promised
		switch {
		case !made.resources.LessEqual(job.Allocated, api.Zero):
			p.add(made)
		case len(job.TaskStatusIndex[api.Binding]) == 0:
			delete(p.admitted, uid)
		}
	}
}

// charge adds the time since the previous session to the namespaces with promises, if the gang of another namespace is
// kept from idle resources.
func (p *promises) charge(ssn *framework.Session, now time.Time) {
	maps.DeleteFunc(p.inTheWay, func(_ string, of inTheWay) bool { return now.Sub(of.last) >= noPromisesFor })
	gap, before := min(now.Sub(p.last), longestGap), p.idle
	p.last, p.idle = now, nil
	if len(p.sums) == 0 {
		return
	}
	if p.idle = idleOf(ssn); before == nil {
		return
	}
	kept := p.keptFrom(ssn, before.MinDimensionResource(p.idle, api.Zero))
	for namespace := range p.sums {
		if p.count(namespace) && (len(kept) > 1 || len(kept) == 1 && !kept[namespace]) {
			p.inTheWay[namespace] = inTheWay{p.inTheWay[namespace].total + gap, now}
		}
	}
}

// keptFrom returns namespaces, two at most, with a gang that the previous session did not admit although the idle
// resources suffice for its minResources.
func (p *promises) keptFrom(ssn *framework.Session, idle *api.Resource) map[string]bool {
	kept := map[string]bool{}
	for uid := range p.refused {
		job := ssn.Jobs[uid]
		if job != nil && job.IsPending() && asks(ssn, job).LessEqual(idle, api.Zero) {
			kept[job.Namespace] = true
		}
		if len(kept) > 1 {
			break
		}
	}
	return kept
}

// recordRefused records which gangs plugins did not admit in the session that closes. Gangs of full queues are not
// among them.
func (p *promises) recordRefused(ssn *framework.Session) {
	clear(p.refused)
	if len(p.sums) == 0 {
		return
	}
	for uid := range ssn.Jobs {
		if reason, ok := ssn.PendingReason(uid); ok && reason.Reason == framework.NotEnqueued {
			p.refused[uid] = true
		}
	}
}

// idleOf returns the sum of idle resources of all nodes.
func idleOf(ssn *framework.Session) *api.Resource {
	sum := api.EmptyResource()
	for _, node := range ssn.Nodes {
		sum.Add(node.Idle)
	}
	return sum
}

// promised reports whether upstream's plugins reserve the gang's minResources beyond the resources that the gang
// already holds.
func promised(job *api.JobInfo) bool {
	phase := job.PodGroup.Status.Phase
	return phase == scheduling.PodGroupInqueue || phase == scheduling.PodGroupRunning
}
