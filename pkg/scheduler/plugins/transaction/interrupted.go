// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Only the members of a partially bound gang whose bind was interrupted go first: the same pods (UID), which the
// scheduler was binding when it crashed or a Binding failed, with requests no larger than then. They go first only if
// they complete the gang. A gang that lost a running member waits in its usual order, whatever the cause: its owner can
// delete members, and preempt and reclaim evict members for other gangs.
//
//   - A leader remembers the members that its sessions handed over to be bound while no member held a node. It forgets
//     them when the gang has its minimum, when no member of the gang or its group holds a node or is being bound, when
//     the pod was deleted, and when no session had the gang for framework.AbsentFor. A gang may be absent from some sessions, for
//     example while the quarantine searches for an object that makes sessions panic.
//   - A new leader compares, in its first session, two times that the API server writes and tenants cannot change: when
//     pods were created and when they were bound. After a crash between two Bindings, the pending members were created
//     before the first Binding.

// interruptedBind has the members of a gang that the leader handed over to be bound.
type interruptedBind struct {
	// tasks are the requests of the members, by UID, when they were first handed over.
	tasks map[api.TaskID]request
	// seen is when a session last had the gang, whose PodGroup has this UID.
	seen     time.Time
	podGroup types.UID
}

// request is what a member requests: resources, and all devices of a node by an annotation.
type request struct {
	resources *api.Resource
	devices   string
}

func requestOf(pod *v1.Pod) request {
	return request{api.GetPodResourceRequest(pod), pod.Annotations[v1alpha1.DeviceAllocateHintAnnotation]}
}

// forgetInterrupted drops the members that no longer count as interrupted. A new leader first finds the members that a
// crash interrupted.
func (p *plugin) forgetInterrupted(ssn *framework.Session) {
	now := time.Now()
	if p.memory.interrupted == nil {
		p.memory.interrupted = map[api.JobID]*interruptedBind{}
		for uid, job := range ssn.Jobs {
			p.memory.interrupted[uid] = &interruptedBind{tasks: p.interruptedByCrash(ssn.Jobs, job), podGroup: job.PodGroup.UID}
		}
	}
	for uid, interrupted := range p.memory.interrupted {
		job := ssn.Jobs[uid]
		switch {
		case job == nil && now.Sub(interrupted.seen) < framework.AbsentFor:
			continue
		case job == nil || job.PodGroup.UID != interrupted.podGroup || binding.MinimumBound(job) || !p.isBindingInPart(ssn.Jobs, job):
			delete(p.memory.interrupted, uid)
			continue
		}
		interrupted.seen = now
		for uid := range interrupted.tasks {
			if job.Tasks[uid] == nil {
				delete(interrupted.tasks, uid)
			}
		}
	}
}

// rememberBinding remembers the members that are being bound at the end of the session, unless a member of the gang or
// its group already holds a node. In that case, the gang has its minimum or has lost running members, and replacements
// that fail to bind wait in their usual order. A member that is already remembered keeps its former requests, because
// its pod may have been resized since.
func (p *plugin) rememberBinding(ssn *framework.Session) {
	for uid, job := range ssn.Jobs {
		if !isBinding(job) || holdsNodes(job) || len(p.boundWith(ssn.Jobs, job)) > 0 {
			continue
		}
		for task, info := range job.TaskStatusIndex[api.Binding] {
			if p.memory.interrupted[uid] == nil {
				p.memory.interrupted[uid] = &interruptedBind{tasks: map[api.TaskID]request{}, seen: time.Now(), podGroup: job.PodGroup.UID}
			}
			tasks := p.memory.interrupted[uid].tasks
			if _, known := tasks[task]; !known {
				tasks[task] = requestOf(info.Pod)
			}
		}
	}
}

// isBindingInPart reports whether members of the gang, or of the gangs that it is bound with, hold nodes or are being bound.
func (p *plugin) isBindingInPart(jobs map[api.JobID]*api.JobInfo, job *api.JobInfo) bool {
	if holdsNodes(job) || isBinding(job) || len(p.boundWith(jobs, job)) > 0 {
		return true
	}
	for _, name := range p.groupOf(job).gangs {
		if other := jobs[api.JobID(name.String())]; other != nil && isBinding(other) {
			return true
		}
	}
	return false
}

func isBinding(job *api.JobInfo) bool { return len(job.TaskStatusIndex[api.Binding]) > 0 }

// interruptedByCrash returns the pending members that were created before the first member of the gang, or of its
// group, was bound. If no time of a bind is known, it returns all pending members. It returns none if at least as many
// members are bound as the gang needed at that time, because a tenant may have raised the minimum since, and may have a
// spare pod that is older. This number does not decide if roles or sub-groups have minima: the crash may have left out
// all members of a role.
func (p *plugin) interruptedByCrash(jobs map[api.JobID]*api.JobInfo, job *api.JobInfo) map[api.TaskID]request {
	interrupted := map[api.TaskID]request{}
	byNumber := len(binding.RoleMinima(&job.PodGroup.Spec)) == 0 && len(job.MinSubJobs) == 0
	if least := binding.BoundFor(job); byNumber && least > 0 && binding.BoundMembers(job) >= least {
		return interrupted
	}
	bound := boundTasks(job)
	for _, other := range p.boundWith(jobs, job) {
		bound = append(bound, boundTasks(other)...)
	}
	first, known := firstBind(bound)
	for uid, task := range job.TaskStatusIndex[api.Pending] {
		if !known || !task.Pod.CreationTimestamp.After(first) {
			interrupted[uid] = requestOf(task.Pod)
		}
	}
	return interrupted
}

// firstBind returns when the first of the tasks was bound; known is false if no pod has the time of its bind.
func firstBind(tasks []*api.TaskInfo) (first time.Time, known bool) {
	for _, task := range tasks {
		for _, c := range task.Pod.Status.Conditions {
			if c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue && (!known || c.LastTransitionTime.Time.Before(first)) {
				first, known = c.LastTransitionTime.Time, true
			}
		}
	}
	return first, known
}

// completing returns the pending members whose bind was interrupted and that request no more than when they were handed
// over. It returns nil if they do not complete the gang's minimum.
func (p *plugin) completing(job *api.JobInfo) map[api.TaskID]bool {
	interrupted, completing := p.memory.interrupted[job.UID], map[api.TaskID]bool{}
	if interrupted == nil {
		return nil
	}
	for uid, before := range interrupted.tasks {
		if now := job.TaskStatusIndex[api.Pending][uid]; now != nil && !isLarger(requestOf(now.Pod), before) {
			completing[uid] = true
		}
	}
	counts := func(task *api.TaskInfo) bool { return binding.CountsAsBound(task) || completing[task.UID] }
	if binding.ShortOf(job, &job.PodGroup.Spec, counts) != nil {
		return nil
	}
	return completing
}

// isLarger reports whether a task may get more now than before. Its resources may have been resized, and its annotation
// may ask for all devices of a node. Volumes do not count: the task's own pre-bind steps may have bound claims.
func isLarger(now, before request) bool {
	return !now.resources.LessEqual(before.resources, api.Zero) || now.devices != before.devices
}
