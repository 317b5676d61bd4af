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
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/util"

	"github.com/volcano-prebind/volcano-prebind/internal/quantity"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/upstream"
)

// admitted limits how many gangs of a namespace are admitted at once. In each queue with its child queues, it limits
// the resources that the admitted gangs of a namespace request and do not hold yet. They may request at most the
// queue's capability, and at most the cluster's resources, times overcommit-factor if plugin overcommit limits
// admissions. Without this limit, all gangs would be admitted, because upstream's plugins do not count admitted gangs
// (framework.QueueUse.BeginVote), and controllers would create all their pods. Nothing is limited if no plugin limits
// admissions (upstream.AdmissionLimiters). A gang is not limited if another gang of its gang group is admitted,
// because the group is placed only as a whole.
//
// A tenant can write the phase and the minResources of a PodGroup. This changes the limit only for its own namespace.
type admitted struct {
	ssn    *framework.Session
	plugin *plugin
	// factor is the ratio of the limit for the cluster to the cluster's resources: overcommit-factor, or 1.
	factor float64
	// waitFor has the resources that admitted gangs ask for and do not hold yet. groups has the IDs of gang groups of
	// which a gang is admitted. Both are nil until they are first needed.
	waitFor map[namespaceInQueue]*api.Resource
	groups  map[string]bool
}

// namespaceInQueue identifies the gangs of a namespace in a queue and its child queues.
type namespaceInQueue struct {
	namespace string
	queue     api.QueueID
}

// limitVote is the name under which admitted votes. The vote comes just before the first plugin that limits admissions, so
// that a plugin of an earlier tier, such as sla, can permit a gang regardless of limits.
const limitVote = Name + "-admitted"

// limitAdmitted limits in the session how many gangs of a namespace are admitted, if a plugin limits admissions.
func (p *plugin) limitAdmitted(ssn *framework.Session) {
	first := slices.IndexFunc(ssn.Tiers, func(tier conf.Tier) bool { return slices.ContainsFunc(tier.Plugins, limitsAdmissions) })
	if first < 0 {
		return
	}
	a, yes := &admitted{ssn: ssn, plugin: p, factor: 1}, true
	if option, _ := ssn.PluginOption("overcommit"); limitsAdmissions(option) {
		a.factor = defaultFactor
		vcframework.Arguments(option.Arguments).GetFloat64(&a.factor, "overcommit-factor")
	}
	ssn.Tiers = slices.Insert(slices.Clone(ssn.Tiers), first, conf.Tier{Plugins: []conf.PluginOption{{Name: limitVote, EnabledJobEnqueued: &yes}}})
	ssn.AddJobEnqueueableFn(limitVote, func(obj any) int {
		job := obj.(*api.JobInfo)
		if message := a.refuse(job); message != "" {
			ssn.SetPendingReason(job.UID, framework.PendingReason{Reason: framework.NotEnqueued, Message: message})
			return util.Reject
		}
		return util.Abstain
	})
	ssn.AddJobEnqueuedFn(limitVote, func(obj any) {
		if a.waitFor != nil {
			a.add(obj.(*api.JobInfo))
		}
	})
}

// defaultFactor is upstream's default of overcommit-factor.
const defaultFactor = 1.2

func limitsAdmissions(option conf.PluginOption) bool {
	return slices.Contains(upstream.AdmissionLimiters[:], option.Name) && option.EnabledJobEnqueued != nil && *option.EnabledJobEnqueued
}

// add records that the gang is admitted.
func (a *admitted) add(job *api.JobInfo) {
	a.groups[a.plugin.groupOf(job).id] = true
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

// asks returns the gang's minResources less the requests of pods with scheduling gates, like upstream's plugins. It
// leaves out resources that no node has, such as limits.cpu of a quota, because no pod ever holds them. It also leaves
// out numbers of pods, which upstream does not limit.
func (a *admitted) asks(job *api.JobInfo) *api.Resource {
	asked := upstream.CountedMinResources(job)
	maps.DeleteFunc(asked.ScalarResources, func(name v1.ResourceName, _ float64) bool {
		return a.ssn.TotalResource.Get(name) == 0 || api.IsIgnoredScalarResource(name)
	})
	return asked
}

// count adds up the unfulfilled requests of the gangs that are already admitted when it is first called in the session.
// Later calls do nothing.
func (a *admitted) count() {
	if a.waitFor != nil {
		return
	}
	a.waitFor, a.groups = map[namespaceInQueue]*api.Resource{}, map[string]bool{}
	for _, job := range a.ssn.Jobs {
		if job.PodGroup == nil {
			continue
		}
		switch job.PodGroup.Status.Phase {
		case scheduling.PodGroupInqueue:
			a.add(job)
		case scheduling.PodGroupRunning, scheduling.PodGroupUnknown:
			a.groups[a.plugin.groupOf(job).id] = true
		}
	}
}

// refuse returns why this limit refuses to admit the gang, although upstream's plugins may admit it. It returns an
// empty text if the limit permits the gang.
func (a *admitted) refuse(job *api.JobInfo) string {
	if job.PodGroup.Spec.MinResources == nil {
		return ""
	}
	a.count()
	if group := a.plugin.groupOf(job).id; group != "" && a.groups[group] {
		return ""
	}
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
				of := func(amount float64) string { return quantity.Of(name, amount) }
				return fmt.Sprintf("not admitted: admitted gangs of namespace %s already wait for %s %s of %s in %s, and minResources asks for %s", job.Namespace, name, of(has), of(limit), where, of(wants))
			}
		}
	}
	return ""
}

// limit returns how much of the resource the gangs of a namespace may request in the queue, and what limits it: the
// capability of the queue, or the cluster.
func (a *admitted) limit(queue api.QueueID, name v1.ResourceName) (float64, string) {
	total, capability := a.ssn.TotalResource.Get(name)*a.factor, math.Inf(1)
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
	if a.factor != 1 {
		return total, fmt.Sprintf("the cluster with overcommit-factor %g", a.factor)
	}
	return total, "the cluster"
}
