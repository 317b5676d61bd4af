// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// A promise is the minResources of an admitted gang, which upstream's plugins reserve: they do not admit other gangs to
// these resources. Upstream trusts the phase and the minResources of the PodGroup, and a tenant can write both. So a
// promise counts only if this process admitted the gang, and only up to the admitted amounts. A scheduler that starts
// knows none of the promises of its predecessor.

// promiseFor is how long a promise lasts without pods that could run. This is long enough for the pods of a Volcano Job,
// and for a Spark driver that starts and creates its executors. It is also how long idle resources may suffice for the
// gang without the gang being placed. If promises of a namespace lasted for so long in total, and were not fulfilled, the
// namespace no longer gets the benefit of the doubt for noPromisesFor (promises.counts).
const (
	promiseFor    = 2 * time.Minute
	noPromisesFor = time.Hour
)

// mostBetween limits the time between two sessions that counts as time with idle resources. A scheduler that could not
// run sessions for minutes placed no gang.
const mostBetween = promiseFor / 4

// promises are the promises to gangs that this process admitted. A promise ends when the gang holds the resources. It
// also ends, and counts against the namespace, in these cases:
//
//   - The gang was deleted, moved to another queue, is no longer admitted, or asks for nothing beyond the resources it holds.
//   - For promiseFor, the gang's pods did not suffice for the promise: they did not exist, had scheduling gates, or fit
//     together on no set of nodes that they may use, even if the pods of other gangs there ended (backs).
//   - For promiseFor, the resources that are idle or held by its namespace would have sufficed, and the gang was still not placed. Tenants
//     know many ways to create such pods: claims that do not exist, affinity to pods that do not exist. A gang that waits
//     for its queue or for unfragmented nodes loses its promise, too. It keeps its turn: other gangs are admitted beside it.
type promises struct {
	admitted map[api.JobID]*promise
	// lapsed has the namespaces whose gangs did not come to hold the minResources that were reserved for them (their
	// promises).
	lapsed map[string]lapse
	// last is the time of the previous session.
	last time.Time
}

// lapse says for how long promises (reserved minResources) kept resources that the gangs of a namespace did not use.
// last is when the last of these promises ended.
type lapse struct {
	kept time.Duration
	last time.Time
}

type promise struct {
	namespace string
	queue     api.QueueID
	// resources are the minResources for which the gang was admitted, less amounts that the gang no longer asked for
	// later.
	resources *api.Resource
	// unbacked is since when the gang's pods have not sufficed for its promised minResources; zero if the last check
	// found that they suffice.
	unbacked time.Time
	// checked is when the gang's pods were last checked against its promised minResources; zero before the first check.
	checked time.Time
	// hadRoom reports whether, in the previous session, the gang's pods and the room (waitedBesideRoom) both sufficed for
	// its promised minResources. idle is for how long both sufficed in total.
	hadRoom bool
	idle    time.Duration
	// placed reports whether members have held all promised resources while they were being bound.
	placed bool
}

func newPromises() promises {
	return promises{admitted: map[api.JobID]*promise{}, lapsed: map[string]lapse{}}
}

// recordAdmitted records that the gang is admitted now, and that its minResources are promised. If a gang is admitted
// again, its promise keeps the time at which it began. Resources that no node has, such as limits.cpu of a
// quota, are not part of the promise: no pod ever holds them.
func (p *promises) recordAdmitted(ssn *framework.Session, job *api.JobInfo, now time.Time) {
	if job.PodGroup.Spec.MinResources == nil {
		return
	}
	made := p.admitted[job.UID]
	if made == nil {
		made = &promise{namespace: job.Namespace, unbacked: now}
		p.admitted[job.UID] = made
	}
	made.queue, made.resources = job.Queue, asks(job)
	maps.DeleteFunc(made.resources.ScalarResources, func(name v1.ResourceName, _ float64) bool { return ssn.TotalResource.Get(name) == 0 })
}

// asks returns the amounts that upstream's plugins count for the gang: minResources less the requests of pods with
// scheduling gates.
func asks(job *api.JobInfo) *api.Resource { return job.DeductSchGatedResources(job.GetMinResources()) }

// limit ends promises, and limits the minResources that the session counts for admitted gangs to the resources that they
// hold or have been promised.
func (p *promises) limit(ssn *framework.Session, now time.Time) {
	maps.DeleteFunc(p.lapsed, func(_ string, of lapse) bool { return now.Sub(of.last) >= noPromisesFor })
	p.update(ssn, now)
	p.last = now
	for uid, job := range ssn.Jobs {
		if !promised(job) {
			continue
		}
		most := api.EmptyResource()
		if made := p.admitted[uid]; made != nil && p.counts(made) && !ssn.Infeasible(job) {
			most = job.GetSchGatedPodResources().Add(made.resources) // upstream subtracts the requests of gated pods
		}
		framework.LimitMinResources(job, most)
	}
}

// counts reports whether the gang's promise, which is its admitted minResources, still reserves resources. Normally it
// does. In a namespace whose unfulfilled promises lasted for promiseFor in total, it does so only while the gang's pods
// suffice for the promise.
func (p *promises) counts(made *promise) bool {
	return made.unbacked.IsZero() || !p.broken(made.namespace)
}

func (p *promises) broken(namespace string) bool { return p.lapsed[namespace].kept >= promiseFor }

// update ends promises (reserved minResources): first of gangs that hold the resources, no longer ask for them, or have
// waited too long although idle resources sufficed. Then it ends those for which the gangs' pods did not suffice.
func (p *promises) update(ssn *framework.Session, now time.Time) {
	idle := sync.OnceValue(func() *api.Resource { return idleOf(ssn) })
	held := heldBy(ssn)
	var due []dueCheck
	for uid, made := range p.admitted {
		job := ssn.Jobs[uid]
		if job == nil || !promised(job) || job.Queue != made.queue {
			p.end(uid, now, "withdrawn")
			continue
		}
		holds := made.resources.LessEqual(job.Allocated, api.Zero)
		made.resources.MinDimensionResource(asks(job), api.Zero) // if the gang asks for less once, only the lower amount stays promised
		switch {
		case holds && len(job.TaskStatusIndex[api.Binding]) == 0:
			delete(p.admitted, uid)
		case holds: // the resources must stay reserved for the gang if the members that are being bound are rolled back
			made.unbacked, made.checked, made.hadRoom, made.placed = time.Time{}, now, false, true
		case made.resources.LessEqual(job.Allocated, api.Zero):
			p.end(uid, now, "withdrawn")
		case p.waitedBesideRoom(made, func() *api.Resource { return idle().Clone().Add(held(made.namespace)) }, now):
			p.end(uid, now, "not placed although idle resources suffice")
		case made.due(now):
			due = append(due, dueCheck{uid, made})
		}
	}
	p.check(ssn, due, now)
}

// waitedBesideRoom reports whether room sufficed for the promised minResources for too long in total. Room is the
// resources that are idle or held by gangs of the namespace, which could end its own pods. Too long means for promiseFor.
// In a namespace whose unfulfilled promises lasted for promiseFor in total, it means at all. The time between two sessions
// counts if there was room in one of them, so that a pod that comes and goes does not stop the clock.
func (p *promises) waitedBesideRoom(made *promise, room func() *api.Resource, now time.Time) bool {
	suffices := made.unbacked.IsZero() && made.resources.LessEqual(room(), api.Zero)
	if suffices || made.hadRoom {
		made.idle += min(now.Sub(p.last), mostBetween)
	}
	made.hadRoom = suffices
	return made.idle >= promiseFor || made.idle > 0 && p.broken(made.namespace)
}

// end ends the promise of a gang that did not come to hold its promised minResources. The time in which the promise
// counted although the gang's pods did not suffice, or although idle resources sufficed, counts against the namespace.
// Otherwise a tenant could keep other gangs out with one gang after the other: it deletes each one, or changes it,
// before the promise would end.
func (p *promises) end(uid api.JobID, now time.Time, why string) {
	made, kept := p.admitted[uid], p.admitted[uid].idle
	delete(p.admitted, uid)
	if !made.unbacked.IsZero() {
		kept += now.Sub(made.unbacked)
	}
	if made.placed {
		kept = 0 // members of short jobs may have ended before all of them were bound
	}
	klog.V(3).InfoS("The minResources of the gang no longer reserve resources", "gang", uid, "why", why)
	if kept > 0 && !p.broken(made.namespace) {
		p.lapsed[made.namespace] = lapse{p.lapsed[made.namespace].kept + kept, now}
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

// heldBy returns a function that returns the sum of the resources that the gangs of a namespace hold.
func heldBy(ssn *framework.Session) func(namespace string) *api.Resource {
	sums := sync.OnceValue(func() map[string]*api.Resource {
		sums := map[string]*api.Resource{}
		for _, job := range ssn.Jobs {
			if sums[job.Namespace] == nil {
				sums[job.Namespace] = api.EmptyResource()
			}
			sums[job.Namespace].Add(job.Allocated)
		}
		return sums
	})
	return func(namespace string) *api.Resource { return sums()[namespace] }
}

// promised reports whether upstream's plugins reserve the gang's minResources beyond the resources that the gang
// already holds.
func promised(job *api.JobInfo) bool {
	phase := job.PodGroup.Status.Phase
	return job.PodGroup.Spec.MinResources != nil && (phase == scheduling.PodGroupInqueue || phase == scheduling.PodGroupRunning)
}
