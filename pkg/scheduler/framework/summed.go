// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"slices"
	"sync"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/snapshot"
)

// addingPlugins are upstream's plugins that add up the requests of all tasks when a session opens, and read nothing else of
// placed tasks at that time.
var addingPlugins = [...]string{"capacity", "drf", "overcommit", "proportion"}

// summedPlugin wraps an upstream plugin. While the plugin opens, it sees summaries of jobs (snapshot.Summaries): one
// task with the sum of requests replaces a job's placed tasks. Functions of the plugin that are called later see the
// complete jobs. A plugin of AdmissionLimiters also opens with stand-ins, so that it counts only the resources that
// admitted gangs hold (countHeldOnly).
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
	p.Plugin.OnSessionOpen(ssn)
}

// openingJobs are the jobs of the session that opened last, with the summaries that its summedPlugins share. No plugin
// places or removes tasks while the plugins open.
type openingJobs struct {
	session   *vcframework.Session
	summaries snapshot.Summaries
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

// sumFor wraps the addingPlugins that the tiers name in a summedPlugin, for this and later sessions. A plugin that this
// project registered under such a name is not wrapped.
func (r *Registry) sumFor(tiers []conf.Tier) {
	opening := &openingJobs{}
	for _, tier := range tiers {
		for _, option := range tier.Plugins {
			if _, ours := r.specs[option.Name]; ours || !slices.Contains(addingPlugins[:], option.Name) {
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

// closingJobs are the jobs of a session that closes. Once a job's status is written, one task with the sum of requests
// replaces the job's placed tasks (snapshot.Summaries). Upstream then only adds up the allocated resources of queues,
// and reads nothing else of jobs. closingJobs is safe for concurrent use.
type closingJobs struct {
	mu        sync.Mutex
	summaries snapshot.Summaries
}

func (c *closingJobs) written(job *api.JobInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.summaries.Show(job, false)
}

func (c *closingJobs) closed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.summaries.Undo()
	c.summaries.Forget()
}
