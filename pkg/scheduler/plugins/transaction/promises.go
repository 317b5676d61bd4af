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

// A promise is the minResources of an admitted gang. Upstream's plugins reserve them: they do not admit other gangs to
// these resources, for as long as the gang waits. A tenant could so keep all others from idle resources. Here an admitted
// gang counts for upstream's plugins with the resources that it holds, and promises limit only the namespace itself: its
// gangs that are admitted and not placed ask together for no more than the cluster has (refuse). Otherwise all its gangs
// would be admitted, and controllers would create all their pods.
//
// A tenant can write the phase and the minResources of a PodGroup. So a promise counts only if this process admitted the
// gang, and only up to the admitted amounts. A scheduler that starts knows none of the promises of its predecessor.

// withdrawnPause is how long a namespace waits for further admissions after one of its gangs was admitted and then
// withdrawn before its promise was fulfilled. Within one session, plugins capacity and proportion count a gang that they admit
// against all others of the queue. A tenant that withdraws a gang each second and has another one ready would keep others
// out.
const withdrawnPause = 10 * time.Second

// promises are the promises to gangs that this process admitted. A promise ends when the gang holds the resources, no
// longer asks for them, or is no longer an admitted gang of its queue.
type promises struct {
	admitted map[api.JobID]*promise
	// sums has, by namespace, the promised resources that gangs do not hold yet.
	sums map[string]*api.Resource
	// withdrawn has, by namespace, when one of its gangs was last withdrawn before its promise was fulfilled.
	withdrawn map[string]time.Time
}

type promise struct {
	namespace string
	queue     api.QueueID
	// resources are the minResources for which the gang was admitted, less amounts that the gang no longer asked for
	// later.
	resources *api.Resource
	// fulfilled reports whether members of the gang have held all promised resources, some perhaps while they were being
	// bound, and others until they succeeded.
	fulfilled bool
}

func newPromises() promises {
	return promises{admitted: map[api.JobID]*promise{}, sums: map[string]*api.Resource{}, withdrawn: map[string]time.Time{}}
}

// recordAdmitted records that the gang is admitted now, and that its minResources are promised. In the rest of the
// session upstream's plugins count the gang with the resources that it holds, if they count it after the call.
func (p *promises) recordAdmitted(ssn *framework.Session, job *api.JobInfo) {
	if job.PodGroup.Spec.MinResources == nil {
		return
	}
	made := &promise{namespace: job.Namespace, queue: job.Queue, resources: asks(ssn, job)}
	p.admitted[job.UID] = made
	p.add(made, job)
	framework.LimitMinResources(job, api.EmptyResource())
}

// add adds the promised resources that the gang does not hold to the sum.
func (p *promises) add(made *promise, job *api.JobInfo) {
	if p.sums[made.namespace] == nil {
		p.sums[made.namespace] = api.EmptyResource()
	}
	p.sums[made.namespace].Add(api.ExceededPart(made.resources, job.Allocated))
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
	maps.DeleteFunc(p.withdrawn, func(_ string, at time.Time) bool { return now.Sub(at) >= withdrawnPause })
	for uid, made := range p.admitted {
		job := ssn.Jobs[uid]
		if job == nil || !promised(job) || job.Queue != made.queue {
			delete(p.admitted, uid)
			if !made.fulfilled && (job == nil || job.Queue != made.queue) { // a session may still see the phase Pending after the admission
				p.withdrawn[made.namespace] = now
			}
			continue
		}
		made.resources.MinDimensionResource(job.DeductSchGatedResources(job.GetMinResources()), api.Zero) // if the gang asks for less once, only the lower amount stays promised
		held := job.Allocated.Clone()
		for _, task := range job.TaskStatusIndex[api.Succeeded] {
			held.Add(task.Resreq)
		}
		holds := made.resources.LessEqual(held, api.Zero)
		made.fulfilled = made.fulfilled || holds
		switch {
		case holds && len(job.TaskStatusIndex[api.Binding]) == 0:
			delete(p.admitted, uid)
		case !ssn.Infeasible(job):
			p.add(made, job)
		}
	}
}

// refuse returns why the gang waits for admission although upstream's plugins may admit it; empty if it does not.
func (p *promises) refuse(ssn *framework.Session, job *api.JobInfo) string {
	if _, paused := p.withdrawn[job.Namespace]; paused {
		return fmt.Sprintf("a gang of namespace %s was admitted and withdrawn before it was placed; further gangs are admitted after a pause of %s", job.Namespace, withdrawnPause)
	}
	sum := p.sums[job.Namespace]
	if sum == nil || job.PodGroup.Spec.MinResources == nil {
		return ""
	}
	asked := asks(ssn, job)
	for _, name := range asked.ResourceNames() {
		if has := ssn.TotalResource.Get(name); asked.Get(name) > 0 && asked.Get(name)+sum.Get(name) > has {
			of := func(amount float64) string { return framework.Quantity(name, amount) }
			return fmt.Sprintf("admitted gangs of namespace %s already wait for %s %s of %s in the cluster, and minResources asks for %s", job.Namespace, name, of(sum.Get(name)), of(has), of(asked.Get(name)))
		}
	}
	return ""
}

// promised reports whether upstream's plugins reserve the gang's minResources beyond the resources that the gang
// already holds.
func promised(job *api.JobInfo) bool {
	phase := job.PodGroup.Status.Phase
	return phase == scheduling.PodGroupInqueue || phase == scheduling.PodGroupRunning
}
