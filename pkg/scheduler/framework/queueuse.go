// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
)

// QueueUse is what the tasks of each queue have, those of queues in it included, and what all tasks have. It is counted once
// a session, when it is first asked for, and kept up to date from then on.
type QueueUse struct {
	upstream *vcframework.Session
	used     map[api.QueueID]*api.Resource
	all      *api.Resource
	// promised is what gangs were let in for that have no tasks placed.
	promised *api.Resource
}

// count counts once.
func (u *QueueUse) count() {
	if u.used != nil {
		return
	}
	ssn := u.upstream
	u.used, u.all, u.promised = map[api.QueueID]*api.Resource{}, api.EmptyResource(), api.EmptyResource()
	for _, job := range ssn.Jobs {
		u.add(job.Queue, job.Allocated)
		for _, task := range job.TaskStatusIndex[api.Pipelined] {
			u.add(job.Queue, task.Resreq)
		}
		if job.PodGroup.Status.Phase == scheduling.PodGroupInqueue && job.PodGroup.Spec.MinResources != nil && job.Allocated.IsEmpty() {
			u.promised.Add(job.GetMinResources())
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

// counts are those that the queue's tasks count in.
func (u *QueueUse) counts(queue api.QueueID) []*api.Resource {
	counts := []*api.Resource{u.all}
	for _, id := range u.Path(queue) {
		counts = append(counts, u.of(id))
	}
	return counts
}

func (u *QueueUse) of(queue api.QueueID) *api.Resource {
	if u.used[queue] == nil {
		u.used[queue] = api.EmptyResource()
	}
	return u.used[queue]
}

// FitsShare returns an error if the queue's share of the cluster does not hold the amount beside what the queue's tasks hold. The share is the
// queue's deserved resources, or without these its part by weight of the share of the queue it is in.
func (u *QueueUse) FitsShare(queue *api.QueueInfo, amount *api.Resource) error {
	u.count()
	used := u.of(queue.UID)
	for _, name := range resourceNames(amount) {
		share, limited := u.share(queue, name)
		if would := used.Get(name) + amount.Get(name); limited && would > share+1e-6 {
			return fmt.Errorf("queue %s would hold %s %s with them, and its share is %s", queue.Name, name, Quantity(name, would), Quantity(name, share))
		}
	}
	return nil
}

// share returns the queue's share of the cluster's resource, and false where deserved resources do not name it.
func (u *QueueUse) share(queue *api.QueueInfo, name v1.ResourceName) (float64, bool) {
	part := 1.0
	for _, id := range u.Path(queue.UID) {
		if id == rootQueue { // upstream writes what its queues deserve into its spec, 0 where they name nothing
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

// rootQueue is the name of upstream's queue that all others are in.
const rootQueue = "root"

func parentOf(queue *api.QueueInfo) string { return cmp.Or(queue.Queue.Spec.Parent, rootQueue) }

// resourceNames are the resources that are asked for, by name.
func resourceNames(request *api.Resource) []v1.ResourceName {
	names := request.ResourceNames().FilteredIgnoredScalarResources() // each pod asks for itself
	slices.Sort(names)
	return names
}

// AmountOf writes how much of a resource there is as users do.
func AmountOf(have *api.Resource, name string) string {
	return Quantity(v1.ResourceName(name), have.Get(v1.ResourceName(name)))
}

// amountsOf tells how much there is of each resource that the request asks for, of the first few by name.
func amountsOf(have, request *api.Resource) string {
	var parts []string
	for _, name := range resourceNames(request) {
		parts = append(parts, fmt.Sprintf("%s %s", name, Quantity(name, have.Get(name))))
	}
	text := strings.Join(named(parts), ", ")
	if len(parts) > maxNamed {
		text += ", ..."
	}
	return text
}

// Quantity writes the amount of a resource as users do. Upstream counts memory in bytes, pods by number and all else in thousandths.
func Quantity(name v1.ResourceName, amount float64) string {
	switch name {
	case v1.ResourceMemory:
		return resource.NewQuantity(int64(amount), resource.BinarySI).String()
	case v1.ResourcePods:
		return resource.NewQuantity(int64(amount), resource.DecimalSI).String()
	default:
		return resource.NewMilliQuantity(int64(amount), resource.DecimalSI).String()
	}
}
