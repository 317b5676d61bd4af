// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"fmt"
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// admitted limits how many gangs of a namespace are admitted at once: those in one queue that are admitted and not placed
// ask together for no more than the queue's capability, nor for more than the cluster has. Otherwise all gangs would be
// admitted, since upstream's plugins do not count admitted gangs (framework.QueueUse.BeginVote), and controllers would create
// all their pods. Nothing is limited if no plugin limits admissions (framework.AdmissionLimiters).
//
// A tenant can write the phase and the minResources of a PodGroup, and so change the limit, but only that of its own
// namespace.
type admitted struct {
	ssn *framework.Session
	// limits reports whether the configuration limits how many gangs are admitted.
	limits bool
	// waitFor has the resources that admitted gangs ask for and do not hold yet. It is nil until it is first needed.
	waitFor map[namespaceInQueue]*api.Resource
}

// namespaceInQueue identifies the gangs of a namespace in a queue and its child queues.
type namespaceInQueue struct {
	namespace string
	queue     api.QueueID
}

// newAdmitted is called when the session opens.
func newAdmitted(ssn *framework.Session) *admitted {
	return &admitted{ssn: ssn, limits: slices.ContainsFunc(framework.AdmissionLimiters[:], func(plugin string) bool {
		option, named := ssn.PluginOption(plugin)
		return named && option.EnabledJobEnqueued != nil && *option.EnabledJobEnqueued
	})}
}

// add records that the gang is admitted.
func (a *admitted) add(job *api.JobInfo) {
	if job.PodGroup.Spec.MinResources == nil || a.ssn.Infeasible(job) {
		return
	}
	held := job.Allocated.Clone()
	for _, task := range job.TaskStatusIndex[api.Succeeded] {
		held.Add(task.Resreq)
	}
	waitsFor := api.ExceededPart(a.asks(job), held)
	for _, queue := range a.ssn.QueueUse.Levels(job.Queue) {
		in := namespaceInQueue{job.Namespace, queue}
		if a.waitFor[in] == nil {
			a.waitFor[in] = api.EmptyResource()
		}
		a.waitFor[in].Add(waitsFor)
	}
}

// asks returns the gang's minResources less the requests of pods with scheduling gates, as upstream's plugins count them.
// Resources that no node has, such as limits.cpu of a quota, are left out: no pod ever holds them.
func (a *admitted) asks(job *api.JobInfo) *api.Resource {
	asked := framework.CountedMinResources(job)
	maps.DeleteFunc(asked.ScalarResources, func(name v1.ResourceName, _ float64) bool { return a.ssn.TotalResource.Get(name) == 0 })
	return asked
}

// count adds up the gangs that the session sees admitted. It does so on the first call only.
func (a *admitted) count() {
	if a.waitFor != nil {
		return
	}
	a.waitFor = map[namespaceInQueue]*api.Resource{}
	for _, job := range a.ssn.Jobs {
		if job.PodGroup != nil && job.PodGroup.Status.Phase == scheduling.PodGroupInqueue {
			a.add(job)
		}
	}
}

// refuse returns why the gang waits for admission although upstream's plugins may admit it; empty if it does not.
func (a *admitted) refuse(job *api.JobInfo) string {
	if !a.limits || job.PodGroup.Spec.MinResources == nil {
		return ""
	}
	a.count()
	asked := a.asks(job)
	for _, queue := range a.ssn.QueueUse.Levels(job.Queue) {
		waitFor := a.waitFor[namespaceInQueue{job.Namespace, queue}]
		if waitFor == nil {
			continue
		}
		for _, name := range slices.Sorted(slices.Values(asked.ResourceNames())) {
			has, wants := waitFor.Get(name), asked.Get(name)
			if has == 0 {
				continue
			}
			limit, where := a.limit(queue, name)
			if has+wants > limit {
				of := func(amount float64) string { return framework.Quantity(name, amount) }
				return fmt.Sprintf("admitted gangs of namespace %s already wait for %s %s of %s in %s, and minResources asks for %s", job.Namespace, name, of(has), of(limit), where, of(wants))
			}
		}
	}
	return ""
}

// limit returns how much of the resource gangs in the queue may ask for, and what limits it: the queue's capability or the
// cluster.
func (a *admitted) limit(queue api.QueueID, name v1.ResourceName) (float64, string) {
	total, capability := a.ssn.TotalResource.Get(name), math.Inf(1)
	if info := a.ssn.Queues[queue]; info != nil {
		named := api.NewResource(info.Queue.Spec.Capability).Get(name)
		_, limited := info.Queue.Spec.Capability[name]
		if isBasic := name == v1.ResourceCPU || name == v1.ResourceMemory; limited && (named > 0 || !isBasic) { // upstream ignores a capability of 0 cpu or memory
			capability = named
		}
	}
	if capability < total {
		return capability, fmt.Sprintf("the capability of queue %s", queue)
	}
	return total, "the cluster"
}
