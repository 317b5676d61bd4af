// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/plugins/capacity"
	"volcano.sh/volcano/pkg/scheduler/plugins/proportion"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// candidates are the pods that the action may evict: of the gang's own queue (preempt), or of other queues (reclaim).
type candidates struct {
	ssn    *framework.Session
	action string
	// podByPod reports whether single pods of a gang may be evicted that the gang's minimum needs.
	podByPod bool
	// all are the session's jobs, except gangs that are known to get no room, none of whose pods is on a node. jobs are, for each
	// queue, the jobs with pods on nodes; nil before the first use.
	all  []*api.JobInfo
	jobs map[api.QueueID][]*api.JobInfo
	// alike reports whether the plugins that choose victims look at nothing of the gang for which pods are evicted but what
	// candidatesKey has. known are then the units, for all gangs of a key. For reclaim they may be too many: what plugins
	// allow to evict falls with each eviction, and they are asked again about all pods of a plan (planner.kept).
	alike bool
	known map[candidatesKey][]*unit
	// shares are the plugins that know the shares of queues, as a tier of their own. limited reports whether one of them
	// limits queues to their capability.
	shares  []conf.Tier
	limited bool
}

// candidatesKey is what the pods that may be evicted for a gang depend on, and their order. For reclaim, resources are the
// names of the resources that the gang requests, and queues the other queues in the order in which they lose pods.
type candidatesKey struct {
	queue             api.QueueID
	priority          int32
	resources, queues string
}

func newCandidates(ssn *framework.Session, action string, all []*api.JobInfo, podByPod bool) *candidates {
	c := &candidates{ssn: ssn, action: action, all: all, podByPod: podByPod, alike: true, known: map[candidatesKey][]*unit{}}
	var shares []conf.PluginOption
	for _, tier := range ssn.Tiers {
		for _, plugin := range tier.Plugins {
			knowsShares := plugin.Name == capacity.PluginName || plugin.Name == proportion.PluginName
			c.limited = c.limited || knowsShares && isOn(plugin.EnabledAllocatable)
			if !isOn(c.voteOf(&plugin)) {
				continue
			}
			c.alike = c.alike && alike[plugin.Name]
			if knowsShares {
				shares = append(shares, plugin)
			}
		}
	}
	if action == ReclaimName && len(shares) > 0 {
		c.shares = []conf.Tier{{Plugins: shares}}
	}
	return c
}

func isOn(option *bool) bool { return option != nil && *option }

// voteOf returns the option that lets the plugin choose victims of the action.
func (c *candidates) voteOf(plugin *conf.PluginOption) *bool {
	if c.action == Name {
		return plugin.EnabledPreemptable
	}
	return plugin.EnabledReclaimable
}

// alike are plugins that choose the same victims for all gangs of a candidatesKey, or choose none. For other plugins, the
// pods that may be evicted are asked for again for each gang.
var alike = map[string]bool{
	"evictionbackoff": true, "transaction": true, "priority": true, "gang": true, "conformance": true, "predicates": true,
	"nodeorder": true, "binpack": true, "overcommit": true, "proportion": true, "capacity": true, "network-topology-aware": true,
	"ibcluster": true, "coscheduling": true, "volumebinding": true, "dynamicresources": true, "deviceshare": true, "bindpolicy": true,
}

func (c *candidates) keyOf(job *api.JobInfo, asker *api.TaskInfo) candidatesKey {
	key := candidatesKey{queue: job.Queue, priority: job.Priority}
	if c.action == ReclaimName {
		names := asker.Resreq.ResourceNames()
		slices.Sort(names)
		key.resources, key.queues = fmt.Sprint(names), fmt.Sprint(c.others(job.Queue))
	}
	return key
}

// askerOf returns the task that stands for the gang when plugins are asked which pods may be evicted. For reclaim it
// requests what the gang's minimum requests, because queues have a share for the gang as a whole.
func (c *candidates) askerOf(pending *state.Pending, minimum *api.TaskInfo) *api.TaskInfo {
	if c.action == Name {
		return pending.First()
	}
	return minimum
}

// minimumOf returns the first tasks that the gang's minimum needs: byRole tasks of each role, and then others until there are as
// many as needed.
func minimumOf(pending *state.Pending, needed int, byRole map[string]int32) (tasks []*api.TaskInfo) {
	byRole = maps.Clone(byRole)
	var others []*api.TaskInfo
	for _, subJob := range pending.SubJobs {
		for _, task := range pending.Tasks[subJob.UID] {
			if byRole[task.TaskRole] > 0 {
				byRole[task.TaskRole]--
				tasks = append(tasks, task)
			} else {
				others = append(others, task)
			}
		}
	}
	tasks = append(tasks, others...)
	return tasks[:min(needed, len(tasks))]
}

// together returns a task that requests as much as the tasks, of which there is at least one.
func together(tasks []*api.TaskInfo) *api.TaskInfo {
	sum := *tasks[0]
	sum.Resreq, sum.InitResreq = api.EmptyResource(), api.EmptyResource()
	for _, task := range tasks {
		sum.Resreq.Add(task.Resreq)
		sum.InitResreq.Add(task.InitResreq)
	}
	return &sum
}

// refuse returns why no pods may be evicted for the gang, whichever they are; empty if some may. minimum requests what the
// gang's minimum requests. exact is false if the minimum may be met by tasks that request less.
func (c *candidates) refuse(job *api.JobInfo, minimum *api.TaskInfo, exact bool) string {
	queue := c.ssn.Queues[job.Queue]
	if c.limited && exact {
		if err := c.ssn.QueueUse.FitsCapability(queue, minimum.Resreq); err != nil {
			return err.Error()
		}
	}
	if c.action == ReclaimName && (c.ssn.Overused(queue) || !c.ssn.Preemptive(queue, minimum)) {
		return fmt.Sprintf("queue %s would use more than its share", queue.Name)
	}
	return ""
}

// allowed returns those of the tasks that the plugins allow to evict together. Once plugins of one tier have chosen victims,
// upstream does not ask those of later tiers. The plugins that know the shares of queues are asked in any case. Otherwise
// reclaim could take from a queue what it deserves, and the queue would reclaim it in turn.
func (c *candidates) allowed(asker *api.TaskInfo, tasks []*api.TaskInfo) []*api.TaskInfo {
	if c.action == Name {
		return c.ssn.Preemptable(asker, tasks)
	}
	tasks = c.ssn.Reclaimable(asker, tasks)
	if c.shares != nil {
		c.ssn.WithTiers(c.shares, func() { tasks = c.ssn.Reclaimable(asker, tasks) })
	}
	return tasks
}

// jobsFor returns the jobs with pods on nodes that may be evicted for gangs of the queue. For reclaim, jobs of a queue that
// loses pods first come first. Jobs of one queue are in the order of their UIDs.
func (c *candidates) jobsFor(queue api.QueueID) (jobs []*api.JobInfo) {
	if c.action == Name {
		return c.jobsIn()[queue]
	}
	for _, other := range c.others(queue) {
		jobs = append(jobs, c.jobsIn()[other]...)
	}
	return jobs
}

// others returns the reclaimable queues with pods on nodes other than the given one, in the order in which they lose pods for
// it by the plugins.
func (c *candidates) others(queue api.QueueID) []api.QueueID {
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(c.jobsIn())), func(other api.QueueID) bool {
		of := c.ssn.Queues[other]
		return other == queue || of == nil || !of.Reclaimable()
	})
	before := state.ByOrder[*api.QueueInfo](func(l, r any) bool { return c.ssn.VictimQueueOrderFn(l, r, c.ssn.Queues[queue]) })
	slices.SortStableFunc(others, func(l, r api.QueueID) int { return before(c.ssn.Queues[l], c.ssn.Queues[r]) })
	return others
}

// jobsIn returns the jobs with pods on nodes by queue, in the order of their UIDs.
func (c *candidates) jobsIn() map[api.QueueID][]*api.JobInfo {
	if c.jobs == nil {
		c.jobs = map[api.QueueID][]*api.JobInfo{}
		for _, job := range c.all {
			if framework.IsDeletedJob(job.UID) { // its pods are being deleted already
				continue
			}
			if len(job.TaskStatusIndex[api.Running])+len(job.TaskStatusIndex[api.Bound]) > 0 {
				c.jobs[job.Queue] = append(c.jobs[job.Queue], job)
			}
		}
		for _, jobs := range c.jobs {
			slices.SortFunc(jobs, func(l, r *api.JobInfo) int { return cmp.Compare(l.UID, r.UID) })
		}
	}
	return c.jobs
}
