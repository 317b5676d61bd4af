// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/internal/quantity"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/upstream"
)

// QueueUse is how many resources the tasks of each queue and its child queues hold, and how many all tasks together
// hold. It is computed on first use in a session, and kept up to date from then on.
type QueueUse struct {
	upstream *vcframework.Session
	used     map[api.QueueID]*api.Resource
	all      *api.Resource
	// nested reports whether the limits of a queue also apply to its child queues.
	nested bool
	// asked is the QueueAsk for which Admits currently calls plugins, and askedBy is the task with which it calls them.
	// Both are nil outside of Admits.
	asked   *QueueAsk
	askedBy *api.TaskInfo
	vote    upstream.Vote
	// evicted reports whether pods were evicted in a session that now closes.
	evicted bool
	// leaving returns the tasks that give way to the gang of a given task.
	leaving func(task *api.TaskInfo) []*api.TaskInfo
}

// count computes the resources that tasks of queues hold. It does so on the first call only.
func (u *QueueUse) count() {
	if u.used != nil {
		return
	}
	ssn := u.upstream
	u.used, u.all = map[api.QueueID]*api.Resource{}, api.EmptyResource()
	for _, job := range ssn.Jobs {
		u.add(job.Queue, job.Allocated)
		for _, task := range job.TaskStatusIndex[api.Pipelined] {
			u.add(job.Queue, task.Resreq)
		}
	}
	ssn.AddEventHandler(&vcframework.EventHandler{
		AllocateFunc: func(e *vcframework.Event) { u.add(ssn.Jobs[e.Task.Job].Queue, e.Task.Resreq) },
		DeallocateFunc: func(e *vcframework.Event) {
			for _, used := range u.counts(ssn.Jobs[e.Task.Job].Queue) {
				used.SubWithoutAssert(e.Task.Resreq)
			}
		},
	})
}

func (u *QueueUse) add(queue api.QueueID, request *api.Resource) {
	for _, used := range u.counts(queue) {
		used.Add(request)
	}
}

// counts returns the sums of used resources that include the queue's tasks: the sums of the queue, of each of its
// ancestors, and of the whole cluster.
func (u *QueueUse) counts(queue api.QueueID) []*api.Resource {
	counts := []*api.Resource{u.all}
	for _, id := range u.Path(queue) {
		counts = append(counts, u.of(id))
	}
	return counts
}

// ChargedTo returns the job of the session through which a queue counts the task, which is on a node; nil if no job
// does. No job counts pods of other schedulers, victims evicted in this session, or victims that a plugin has
// discharged (Discharge).
func ChargedTo(jobs map[api.JobID]*api.JobInfo, task *api.TaskInfo) *api.JobInfo {
	for _, id := range []api.JobID{task.Job, DeletedJob(task.Job)} {
		if job := jobs[id]; job != nil && job.Tasks[task.UID] != nil && api.AllocatedStatus(job.Tasks[task.UID].Status) {
			return job
		}
	}
	return nil
}

// DeletedJob returns the ID of the job that holds, in sessions, the pods of the gang that are being deleted. No
// PodGroup can have this ID.
func DeletedJob(gang api.JobID) api.JobID { return gang + upstream.DeletedSuffix }

// IsDeletedJob reports whether the ID was made by DeletedJob.
func IsDeletedJob(id api.JobID) bool { return strings.HasSuffix(string(id), upstream.DeletedSuffix) }

// Discharge removes a pod of the gang that is being deleted from the use of all queues in this session. jobs are the
// session's jobs. It returns the job that counted the pod, and the task in that job; nil if no job counted it. A plugin
// calls Discharge in OnSessionOpen, before the plugins that add up the use of queues.
func Discharge(jobs map[api.JobID]*api.JobInfo, gang api.JobID, pod api.TaskID) (*api.JobInfo, *api.TaskInfo) {
	job := jobs[DeletedJob(gang)]
	if job == nil || job.Tasks[pod] == nil {
		return nil, nil
	}
	if err := job.UpdateTaskStatus(job.Tasks[pod], api.Releasing); err != nil {
		return nil, nil
	}
	upstream.CapMinResources(job)
	return job, job.Tasks[pod]
}

func (u *QueueUse) of(queue api.QueueID) *api.Resource {
	if u.used[queue] == nil {
		u.used[queue] = api.EmptyResource()
	}
	return u.used[queue]
}

// FitsShare returns an error if the amount and the resources that the queue's tasks hold together exceed the queue's
// share of the cluster. The share is the queue's deserved resources. For a queue without deserved resources, the share
// is a part of its parent's share, in proportion to the queue's weight.
func (u *QueueUse) FitsShare(queue *api.QueueInfo, amount *api.Resource) error {
	u.count()
	used := u.of(queue.UID)
	for _, name := range resourceNames(amount) {
		share, limited := u.share(queue, name)
		if would := used.Get(name) + amount.Get(name); limited && would > share+1e-6 {
			return fmt.Errorf("queue %s would use %s %s, its share is %s", queue.Name, name, quantity.Of(name, would), quantity.Of(name, share))
		}
	}
	return nil
}

// share returns the queue's share of the cluster's amount of the resource. It returns false if the resource is not
// limited: the deserved resources of the queue, or of its nearest ancestor that has some, do not name it.
func (u *QueueUse) share(queue *api.QueueInfo, name v1.ResourceName) (float64, bool) {
	part := 1.0
	for _, id := range u.Path(queue.UID) {
		if id == rootQueue { // upstream fills in the root's deserved resources, with 0 for resources that its children do not name
			break
		}
		q := u.upstream.Queues[id]
		if deserved := q.Queue.Spec.Deserved; len(deserved) > 0 {
			_, named := deserved[name]
			return part * api.NewResource(deserved).Get(name), named
		}
		all := 0.0
		for _, other := range u.upstream.Queues {
			if other.UID != rootQueue && parentOf(other) == parentOf(q) {
				all += float64(other.Weight)
			}
		}
		if all > 0 {
			part *= float64(q.Weight) / all
		}
	}
	return part * u.upstream.TotalResource.Get(name), true
}

// rootQueue is the name of the root of upstream's queue hierarchy.
const rootQueue = "root"

func parentOf(queue *api.QueueInfo) string { return cmp.Or(queue.Queue.Spec.Parent, rootQueue) }

// resourceNames returns the names of the requested resources, sorted.
func resourceNames(request *api.Resource) []v1.ResourceName {
	names := request.ResourceNames().FilteredIgnoredScalarResources() // without the resource pods, of which each pod requests one
	slices.Sort(names)
	return names
}

// AmountOf formats the amount that `have` has of the named resource, in the units that users write.
func AmountOf(have *api.Resource, name string) string {
	return quantity.Of(v1.ResourceName(name), have.Get(v1.ResourceName(name)))
}

// amountsOf formats the amounts that `have` has of the requested resources. It formats only the first few resources by
// name.
func amountsOf(have, request *api.Resource) string {
	return textOf(request, func(name string) string { return fmt.Sprintf("%s %s", name, AmountOf(have, name)) })
}

// textOf calls the function `of` with the names of the requested resources, and joins the results. The joined text has
// only the first few resources by name.
func textOf(request *api.Resource, of func(name string) string) string {
	var parts []string
	for _, name := range resourceNames(request) {
		parts = append(parts, of(string(name)))
	}
	text := strings.Join(named(parts), ", ")
	if len(parts) > maxNamed {
		text += ", ..."
	}
	return text
}

// maxNamed bounds how many resources a message lists.
const maxNamed = 3

func named(names []string) []string { return names[:min(len(names), maxNamed)] }
