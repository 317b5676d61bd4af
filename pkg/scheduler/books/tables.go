// SPDX-License-Identifier: Apache-2.0

package books

import (
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcmetrics "volcano.sh/volcano/pkg/scheduler/metrics"
)

// Tables are queues, priority classes and quotas. The mutex of the books guards them.
type Tables struct {
	Queues     map[api.QueueID]*api.QueueInfo
	Priorities map[string]*schedulingv1.PriorityClass
	Quotas     map[string]*api.NamespaceCollection
}

func newTables() Tables {
	return Tables{
		Queues:     map[api.QueueID]*api.QueueInfo{},
		Priorities: map[string]*schedulingv1.PriorityClass{},
		Quotas:     map[string]*api.NamespaceCollection{},
	}
}

// ShowQueue records the version of the queue that the watch shows.
func (t *Tables) ShowQueue(shown *scheduling.Queue) {
	queue := api.NewQueueInfo(shown)
	t.Queues[queue.UID] = queue
}

// HideQueue drops the queue, because it was deleted.
func (t *Tables) HideQueue(name string) {
	if queue := t.Queues[api.QueueID(name)]; queue != nil {
		delete(t.Queues, queue.UID)
		vcmetrics.DeleteQueueMetrics(queue.Name)
	}
}

// ShowQuota records the version of the quota that the watch shows.
func (t *Tables) ShowQuota(quota *v1.ResourceQuota) {
	namespace := t.Quotas[quota.Namespace]
	if namespace == nil {
		namespace = api.NewNamespaceCollection(quota.Namespace)
		t.Quotas[quota.Namespace] = namespace
	}
	namespace.Update(quota)
}

// HideQuota drops the quota, because it was deleted.
func (t *Tables) HideQuota(quota *v1.ResourceQuota) {
	namespace := t.Quotas[quota.Namespace]
	if namespace == nil {
		return
	}
	namespace.Delete(quota)
	if len(namespace.QuotaStatus) == 0 {
		delete(t.Quotas, quota.Namespace)
	}
}

// DefaultPriority returns the priority of gangs whose PriorityClass is not set or does not exist. If several
// PriorityClasses are global defaults, the lowest value counts, as for pods.
func (t *Tables) DefaultPriority() int32 {
	var lowest *schedulingv1.PriorityClass
	for _, class := range t.Priorities {
		if class.GlobalDefault && (lowest == nil || class.Value < lowest.Value) {
			lowest = class
		}
	}
	if lowest == nil {
		return 0
	}
	return lowest.Value
}

// priorityOf returns the value of the PriorityClass that the job's PodGroup names. If it names no existing class,
// priorityOf returns the parameter `otherwise`.
func (t *Tables) priorityOf(job *api.JobInfo, otherwise int32) int32 {
	if job.PodGroup != nil {
		if class := t.Priorities[job.PodGroup.Spec.PriorityClassName]; class != nil {
			return class.Value
		}
	}
	return otherwise
}
