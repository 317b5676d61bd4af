// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"slices"
	"strings"
	"sync"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
)

// addingPlugins are upstream's plugins that add up the requests of all tasks when a session opens, and read nothing else of
// placed tasks at that time.
var addingPlugins = [...]string{"capacity", "drf", "overcommit", "proportion"}

// summedPlugin wraps an upstream plugin. While the plugin opens, it sees summaries of jobs (Summaries): one task
// with the sum of requests replaces a job's placed tasks. Functions of the plugin that are called later see the complete
// jobs. A plugin of AdmissionLimiters also opens with stand-ins, so that it counts only the resources that admitted gangs
// hold (countHeldOnly).
type summedPlugin struct {
	vcframework.Plugin
	opening *openingJobs
}

func (p summedPlugin) OnSessionOpen(ssn *vcframework.Session) {
	p.opening.show(ssn)
	defer p.opening.summaries.Undo()
	if slices.Contains(AdmissionLimiters[:], p.Name()) {
		defer countHeldOnly(ssn.Jobs)()
	}
	if p.Name() == "proportion" {
		defer requestLeaving(ssn.Jobs)()
	}
	p.Plugin.OnSessionOpen(ssn)
}

// DeletedSuffix ends the ID of a job that holds, in sessions, the pods of a gang that are being deleted.
const DeletedSuffix = ":deleted"

// requestLeaving makes pods that are being deleted and were discharged (framework.Discharge) look pending. It returns a function
// that undoes this. Plugin proportion gives a queue no larger share than the queue's pods request. Without these pods, a queue in which pods give
// way to others would have no share for both, as long as both are compared with it.
func requestLeaving(jobs map[api.JobID]*api.JobInfo) (undo func()) {
	var shown []*api.JobInfo
	for id, job := range jobs {
		if leaving := job.TaskStatusIndex[api.Releasing]; strings.HasSuffix(string(id), DeletedSuffix) && len(leaving) > 0 && job.TaskStatusIndex[api.Pending] == nil {
			job.TaskStatusIndex[api.Pending] = leaving
			shown = append(shown, job)
		}
	}
	return func() {
		for _, job := range shown {
			delete(job.TaskStatusIndex, api.Pending)
		}
	}
}

// openingJobs are the jobs of the session that opened last, with the summaries that its summedPlugins share. No plugin
// places or removes tasks while the plugins open.
type openingJobs struct {
	session   *vcframework.Session
	summaries Summaries
}

func (o *openingJobs) show(ssn *vcframework.Session) {
	if o.session == ssn {
		o.summaries.Again()
		return
	}
	o.session = ssn
	o.summaries.Forget()
	for _, job := range ssn.Jobs {
		o.summaries.Show(job, job.PodGroup != nil && job.PodGroup.Spec.MinResources != nil) // of a job with minResources, upstream counts the placed tasks, so Show keeps their number
	}
}

// SumPlugins wraps the addingPlugins that the tiers name in a summedPlugin, for this and later sessions. ours reports
// whether this project registered a plugin under a name; such a plugin is not wrapped.
func SumPlugins(tiers []conf.Tier, ours func(name string) bool) {
	opening := &openingJobs{}
	for _, tier := range tiers {
		for _, option := range tier.Plugins {
			if ours(option.Name) || !slices.Contains(addingPlugins[:], option.Name) {
				continue
			}
			build, found := vcframework.GetPluginBuilder(option.Name)
			if !found {
				continue
			}
			if _, summed := build(vcframework.Arguments{}).(summedPlugin); !summed {
				vcframework.RegisterPluginBuilder(option.Name, func(args vcframework.Arguments) vcframework.Plugin { return summedPlugin{build(args), opening} })
			}
		}
	}
}

// ClosingJobs are the jobs of a session that closes. Once a job's status is written, one task with the sum of requests
// replaces the job's placed tasks (Summaries). Upstream then only adds up the allocated resources of queues, and reads
// nothing else of jobs. ClosingJobs is safe for concurrent use.
type ClosingJobs struct {
	mu        sync.Mutex
	summaries Summaries
}

// Written shows the job's summary, because the job's status is written.
func (c *ClosingJobs) Written(job *api.JobInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.summaries.Show(job, false)
}

// Closed restores the placed tasks of all jobs, because the session has closed.
func (c *ClosingJobs) Closed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.summaries.Undo()
	c.summaries.Forget()
}
