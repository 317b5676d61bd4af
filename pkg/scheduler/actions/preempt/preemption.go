// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// preemption is one run of the action on a session.
type preemption struct {
	ssn *framework.Session
	run *state.Run
	// podByPod reports whether single pods of a gang may be evicted that the gang's minimum needs.
	podByPod bool
	// jobs are, for each queue, the jobs with running pods; nil before the first use.
	jobs map[api.QueueID][]*api.JobInfo
	// judgedByPriority reports whether the plugins that choose victims look at nothing but the priority of the gang for
	// which pods are evicted. known are then the pods that may be evicted, for all gangs of a queue and priority.
	judgedByPriority bool
	known            map[unitsKey][]*unit
	// sent are the pods that were evicted in this session.
	sent []*api.TaskInfo
	// refused has, for gangs that got no room, the reason by what they ask for (preemption.demandKey). Room that a gang
	// could get never grows in a session, so a gang that asks for the same is not tried again.
	refused map[string]string
}

// starving returns the gangs that lack members, in the plugins' order: queue by queue, and job by job.
func starving(ssn *framework.Session) []*api.JobInfo {
	var gangs []*api.JobInfo
	for _, uid := range slices.Sorted(maps.Keys(ssn.Jobs)) {
		job := ssn.Jobs[uid]
		if job.IsPending() || ssn.Queues[job.Queue] == nil || len(job.TaskStatusIndex[api.Pending]) == 0 || !ssn.JobStarving(job) {
			continue
		}
		if invalid := ssn.JobValid(job); invalid != nil && !invalid.Pass {
			klog.V(4).InfoS("No pods are evicted for a gang", "podGroup", klog.KRef(job.Namespace, job.Name), "reason", invalid.Reason, "message", invalid.Message)
			continue
		}
		gangs = append(gangs, job)
	}
	byQueue, byJob := state.ByOrder[*api.QueueInfo](ssn.QueueOrderFn), state.ByOrder[*api.JobInfo](ssn.JobOrderFn)
	slices.SortStableFunc(gangs, func(l, r *api.JobInfo) int {
		if l.Queue == r.Queue {
			return byJob(l, r)
		}
		return cmp.Or(byQueue(ssn.Queues[l.Queue], ssn.Queues[r.Queue]), cmp.Compare(l.Queue, r.Queue))
	})
	return gangs
}

// makeRoomForAll evicts pods for the gangs, one gang after the other.
func (p *preemption) makeRoomForAll(gangs []*api.JobInfo) {
	defer func() { p.ssn.Placements.Preemptor = "" }()
	for _, job := range gangs {
		p.ssn.SetCurrentJob(job.UID)
		p.ssn.Placements.Preemptor = job.UID
		if !p.ssn.JobStarving(job) {
			continue
		}
		errors, text := maps.Clone(job.NodesFitErrors), job.JobFitErrors
		if why := p.makeRoom(job); why != "" {
			job.NodesFitErrors, job.JobFitErrors = errors, text
			if why != noneNeeded {
				p.explain(job, why)
			}
		}
	}
}

// noneNeeded is the result of makeRoom for a gang for which no pods need be evicted.
const noneNeeded = "no evictions are needed"

// makeRoom evicts as few pods as needed for the gang's minimum, and pipelines the gang's members on the released
// resources. It returns why no pods were evicted; empty if members were pipelined.
func (p *preemption) makeRoom(job *api.JobInfo) (why string) {
	pending := state.NewPendingTasks(p.run.Progress, job)
	switch gangs, all := framework.Companions(p.ssn.Jobs, p.ssn.Placements.GangGroup(job)); {
	case pending.Empty() || len(job.TaskStatusIndex[api.Pipelined]) > 0:
		return noneNeeded // the other members request nothing, or wait for resources already
	case gangs != nil || !all:
		return "the gang is in a gang group"
	case p.ssn.Paused(job):
		return "the gang may be placed on idle resources only, for now"
	}
	if neverPreempts(job) {
		return "preemptionPolicy of its pods is Never"
	}
	if err := p.run.Finder.PrePredicate(pending.First()); err != nil { // may be the turn of other gangs (plugin evictionbackoff)
		return err.Error()
	}
	defer p.run.Finder.ForgetJob()
	defer p.run.Progress.Forget(job)
	r, err := p.newAttempt(job, pending)
	if err != nil {
		return err.Error()
	}
	d, err := r.DemandOf()
	if err != nil {
		return err.Error()
	}
	key := p.demandKey(r, d)
	if known := p.refused[key]; known != "" {
		return known
	}
	why = newPlanner(p, r, d).plan()
	if why != "" && why != noneNeeded && key != "" {
		p.refused[key] = why
	}
	return why
}

// newAttempt returns an attempt to place the pending tasks on idle resources and those being released.
func (p *preemption) newAttempt(job *api.JobInfo, pending *state.Pending) (*state.Attempt, error) {
	r, err := state.NewAttempt(p.run, job, pending, false)
	if err != nil {
		return nil, err
	}
	r.Phases = []bool{false}
	return r, nil
}

// neverPreempts reports whether a pending pod of the gang must not evict others.
func neverPreempts(job *api.JobInfo) bool {
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if policy := task.Pod.Spec.PreemptionPolicy; policy != nil && *policy == v1.PreemptNever {
			return true
		}
	}
	return false
}

// demandKey returns a text of everything that decides whether pods may be evicted for the gang. It is empty if a plugin
// may decide by something else, or if the gang has members on nodes or a topology.
func (p *preemption) demandKey(r *state.Attempt, d *state.Demand) string {
	job := r.Job
	if d.Unknown || r.Planner != nil || r.DividesItself() || len(r.Members.Nodes) > 0 || p.run.Finder.ReadsAnything() || !p.judgedByPriority || p.run.Finder.PerJobBut(r.Pending.First(), chosenBy(r)) {
		return ""
	}
	var key strings.Builder
	fmt.Fprintf(&key, "%s %d %d %t %v", job.Queue, job.Priority, d.Needed, d.Choice, r.NeededByRole())
	for _, class := range d.Classes {
		fmt.Fprintf(&key, " %d %d %d", p.run.Finder.Class(class.Task()).Number(), d.Counts[class], d.Beyond[class])
	}
	if r.Groups != nil {
		fmt.Fprintf(&key, " %t", r.Groups.Required)
		for _, group := range r.Groups.Candidates {
			fmt.Fprintf(&key, " %s", group.Path())
		}
	}
	return key.String()
}

// chosenBy returns the plugin that named the gang's node groups, if any.
func chosenBy(r *state.Attempt) string {
	if r.Groups == nil {
		return ""
	}
	return r.Groups.Plugin
}

// judgedByPriority reports whether the plugins that choose victims look at nothing but the priority of the gang for which
// pods are evicted.
func judgedByPriority(ssn *framework.Session) bool {
	for _, tier := range ssn.Tiers {
		for _, plugin := range tier.Plugins {
			if plugin.EnabledPreemptable != nil && *plugin.EnabledPreemptable && !choosesByPriority[plugin.Name] {
				return false
			}
		}
	}
	return true
}

// choosesByPriority are plugins that choose victims by no property of the preemptor but its priority, or choose none. For
// other plugins, the pods that may be evicted are asked for again for each gang.
var choosesByPriority = map[string]bool{
	"evictionbackoff": true, "transaction": true, "priority": true, "gang": true, "conformance": true, "predicates": true,
	"nodeorder": true, "binpack": true, "overcommit": true, "proportion": true, "capacity": true, "network-topology-aware": true,
	"ibcluster": true, "coscheduling": true, "volumebinding": true, "dynamicresources": true, "deviceshare": true, "bindpolicy": true,
}

// explain adds to the gang's pending reason why no pods are evicted for it.
func (p *preemption) explain(job *api.JobInfo, why string) {
	reason, known := p.ssn.PendingReason(job.UID)
	if !known {
		reason = framework.PendingReason{Reason: framework.NotEnoughResources, Message: "the gang does not fit"}
	}
	reason.Message += "; preemption cannot help: " + why
	p.run.SetPendingReason(job, reason)
}

// jobsIn returns the queue's jobs with running pods, by UID.
func (p *preemption) jobsIn(queue api.QueueID) []*api.JobInfo {
	if p.jobs == nil {
		p.jobs = map[api.QueueID][]*api.JobInfo{}
		for _, uid := range slices.Sorted(maps.Keys(p.ssn.Jobs)) {
			job := p.ssn.Jobs[uid]
			if len(job.TaskStatusIndex[api.Running]) > 0 {
				p.jobs[job.Queue] = append(p.jobs[job.Queue], job)
			}
		}
	}
	return p.jobs[queue]
}
