// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// A partially bound gang is placed first only if its pending members ask together for no more than the gang has lost.
// Otherwise a tenant could delete a small member and create a large one, which would pass all other gangs.
//
//   - Lost are the members that held nodes, or were being bound, when the gang last had its minimum, and that hold no
//     node now. Members that were evicted for other gangs are not lost: the gang would take the resources back before
//     the gang of a higher priority gets them.
//   - Lost members were bound by the scheduler. A tenant may create a pod with any node and request.
//   - A new leader does not know what was lost. In its first session it compares two times that the API server writes
//     and tenants cannot change: when pods were created and when they were bound. After a crash between two Bindings, the
//     pending members were created before the first Binding. If such members complete the minimum, they count as lost.
//     Otherwise members were evicted, deleted or lost, and the gang waits in its usual order.

// past is what the leader remembers of a gang.
type past struct {
	// job is the gang at the end of the last session that had it: members that were evicted are Releasing in it, and
	// members that the session placed are Allocated or Binding.
	job *api.JobInfo
	// whole is the gang in the last such state in which it had its minimum; nil while the gang has its minimum, and if
	// the leader has not seen it.
	whole *api.JobInfo
	// cut are the members that a crash kept from being bound, until the gang has its minimum.
	cut []*api.TaskInfo
	// evicted are the members that were evicted for other gangs since the gang had its minimum.
	evicted map[api.TaskID]bool
}

// Evicted implements framework.EvictionObserver. It records that an action has evicted a member of the gang.
func (p *plugin) Evicted(e framework.Eviction) {
	if before, known := p.memory.past[e.Task.Job]; known && e.Action != "" {
		if before.evicted == nil {
			before.evicted = map[api.TaskID]bool{}
		}
		before.evicted[e.Task.UID] = true
		p.memory.past[e.Task.Job] = before
	}
}

// remember updates the leader's memory of gangs. A gang whose PodGroup is missing, or that is left out of the session,
// is remembered while its members hold nodes. A gang that was forgotten has lost nothing.
func (p *plugin) remember(ssn *framework.Session) {
	first := p.memory.past == nil
	pasts := make(map[api.JobID]past, len(ssn.Jobs))
	for uid, job := range ssn.Jobs {
		if job.PodGroup != nil {
			pasts[uid] = p.pastOf(ssn, job, first)
		}
	}
	for uid, before := range p.memory.past {
		if _, exists := pasts[uid]; !exists && before.holdsNodes(ssn) {
			pasts[uid] = before
		}
	}
	p.memory.past = pasts
}

func (p *plugin) pastOf(ssn *framework.Session, job *api.JobInfo, first bool) past {
	now, before := past{job: job}, p.memory.past[job.UID]
	if binding.MinimumBound(job) {
		return now
	}
	if !holdsNodes(job) && len(p.boundWith(ssn.Jobs, job)) == 0 {
		return now
	}
	switch {
	case first && (p.fellShort(job) != nil || p.groupFellShort(ssn.Jobs, job) != nil):
		now.cut = p.cutByCrash(ssn.Jobs, job)
	case before.job != nil && before.job != job && wasWhole(before.job):
		now.whole, now.evicted = before.job, before.evicted
	default:
		now.whole, now.cut, now.evicted = before.whole, before.cut, before.evicted
	}
	return now
}

// wasWhole reports whether the members of the gang that held nodes or were being bound, at the end of a session, reached
// the minimum.
func wasWhole(job *api.JobInfo) bool {
	return binding.ShortOf(job, &job.PodGroup.Spec, func(task *api.TaskInfo) bool { return binding.CountsAsBound(task) || beingBound(task) }) == nil
}

func beingBound(task *api.TaskInfo) bool {
	return task.Status == api.Allocated || task.Status == api.Binding
}

// holdsNodes reports whether members of the gang hold nodes.
func (before past) holdsNodes(ssn *framework.Session) bool {
	for _, task := range before.job.Tasks {
		if holdsNode(ssn, task) {
			return true
		}
	}
	return false
}

// holdsNode reports whether the pod of a task of an earlier session is on its node, in whichever gang it is now. A pod
// that is being deleted holds its node until it has terminated, unless the node is not ready: a tenant chooses the
// grace period.
func holdsNode(ssn *framework.Session, task *api.TaskInfo) bool {
	node := ssn.Nodes[task.NodeName]
	if node == nil || node.Node == nil || slices.ContainsFunc(node.Node.Status.Conditions, notReady) {
		return false
	}
	on := node.Tasks[api.PodKey(task.Pod)]
	return on != nil && on.UID == task.UID
}

func notReady(c v1.NodeCondition) bool { return c.Type == v1.NodeReady && c.Status != v1.ConditionTrue }

// lost returns the members that the gang has lost.
func (p *plugin) lost(ssn *framework.Session, job *api.JobInfo) (lost []*api.TaskInfo) {
	before := p.memory.past[job.UID]
	gone := func(task *api.TaskInfo) bool {
		now := job.Tasks[task.UID]
		return !before.evicted[task.UID] && !holdsNode(ssn, task) && (now == nil || !binding.CountsAsBound(now) && !beingBound(now))
	}
	for _, task := range before.cut {
		if gone(task) {
			lost = append(lost, task)
		}
	}
	if before.whole == nil {
		return lost
	}
	for _, task := range before.whole.Tasks {
		held := task.Status == api.Bound || task.Status == api.Running
		if (held || beingBound(task)) && gone(task) && (!held || boundByScheduler(task) && granted(task.Pod)) {
			lost = append(lost, task)
		}
	}
	return lost
}

// boundByScheduler reports whether the pod has an annotation of its bind, which tenants may not write to a pod that has
// a node.
func boundByScheduler(task *api.TaskInfo) bool {
	return task.Pod.Annotations[binding.MinimumAnnotation] != "" || task.Pod.Annotations[gangs.BindGroupAnnotation] != ""
}

// granted reports whether the pod has the resources that it requests. A tenant may resize a running pod to more than
// its kubelet grants.
func granted(pod *v1.Pod) bool {
	requests := map[string]v1.ResourceList{}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		requests[c.Name] = c.Resources.Requests
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if status.Resources == nil {
			continue
		}
		for name, amount := range status.Resources.Requests {
			if requested := requests[status.Name][name]; requested.Cmp(amount) > 0 {
				return false
			}
		}
	}
	return true
}

// cutByCrash returns the pending members that were created before the first member of the gang, or of its group, was
// bound; none unless these reach the minimum together with the members that hold nodes.
func (p *plugin) cutByCrash(jobs map[api.JobID]*api.JobInfo, job *api.JobInfo) (cut []*api.TaskInfo) {
	bound := boundTasks(job)
	for _, other := range p.boundWith(jobs, job) {
		bound = append(bound, boundTasks(other)...)
	}
	first, known := firstBind(bound)
	before := func(task *api.TaskInfo) bool {
		return task.Status == api.Pending && (!known || !task.Pod.CreationTimestamp.After(first))
	}
	if binding.ShortOf(job, &job.PodGroup.Spec, func(task *api.TaskInfo) bool { return binding.CountsAsBound(task) || before(task) }) != nil {
		return nil
	}
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if before(task) {
			cut = append(cut, task)
		}
	}
	return cut
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

// withinLosses caches, for the session, the result of asksForItsLosses.
func (p *plugin) withinLosses(ssn *framework.Session, job *api.JobInfo) bool {
	within, known := p.within[job.UID]
	if !known {
		within = asksForItsLosses(job, p.lost(ssn, job))
		p.within[job.UID] = within
	}
	return within
}

// asksForItsLosses reports whether the pending members that the gang's minimum needs ask together for no more of any
// resource than the members that the gang has lost. Any of the pending members may be placed. So the largest amounts of
// each resource count, and those of all pending members if roles or sub-groups have minima.
func asksForItsLosses(job *api.JobInfo, lost []*api.TaskInfo) bool {
	pending := job.TaskStatusIndex[api.Pending]
	needed := len(pending)
	if len(binding.RoleMinima(&job.PodGroup.Spec)) == 0 && len(job.MinSubJobs) == 0 {
		needed = min(needed, max(0, int(binding.LeastMembers(job.PodGroup)-binding.BoundMembers(job))))
	}
	given, asked := map[v1.ResourceName]float64{}, map[v1.ResourceName][]float64{}
	same := make(map[api.TaskID]*api.TaskInfo, len(lost))
	for _, task := range lost {
		same[task.UID] = task
		for name, amount := range amountsOf(task) {
			given[name] += amount
		}
	}
	for _, task := range pending {
		if task.SchGated {
			continue
		}
		if !sizeIsKnown(task, same[task.UID]) {
			return false
		}
		for name, amount := range amountsOf(task) {
			asked[name] = append(asked[name], amount)
		}
	}
	for name, amounts := range asked {
		slices.Sort(amounts)
		sum := 0.0
		for _, amount := range amounts[max(0, len(amounts)-needed):] {
			sum += amount
		}
		if sum > given[name] {
			return false
		}
	}
	return true
}

// sizeIsKnown reports whether the requests of a pending member say how much it gets. They do not if the pod has resource
// claims, or an annotation that may ask for all devices of a node. Then the member must be the same pod as the lost
// member, without a change of the annotation.
func sizeIsKnown(task, lost *api.TaskInfo) bool {
	hint := task.Pod.Annotations[v1alpha1.DeviceAllocateHintAnnotation]
	if hint == "" && len(task.Pod.Spec.ResourceClaims) == 0 {
		return true
	}
	return lost != nil && lost.Pod.Annotations[v1alpha1.DeviceAllocateHintAnnotation] == hint
}

// amountsOf returns the amounts that the task requests. It adds the limits of devices, with which users ask for devices
// that upstream or plugin deviceshare leave out of requests, or count in another form.
func amountsOf(task *api.TaskInfo) map[v1.ResourceName]float64 {
	amounts := map[v1.ResourceName]float64{v1.ResourceCPU: task.InitResreq.MilliCPU, v1.ResourceMemory: task.InitResreq.Memory}
	for name, amount := range task.InitResreq.ScalarResources {
		amounts[name] += amount
	}
	for _, c := range slices.Concat(task.Pod.Spec.InitContainers, task.Pod.Spec.Containers) {
		for name, limit := range c.Resources.Limits {
			if name != v1.ResourceCPU && name != v1.ResourceMemory && name != v1.ResourceEphemeralStorage {
				amounts["limits."+name] += limit.AsApproximateFloat64()
			}
		}
	}
	return amounts
}
