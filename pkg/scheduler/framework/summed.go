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
// placed tasks then.
var addingPlugins = [...]string{"capacity", "drf", "overcommit", "proportion"}

// summedPlugin is an upstream plugin that opens on summaries of jobs. Its functions that are called later see the complete jobs.
type summedPlugin struct{ vcframework.Plugin }

func (p summedPlugin) OnSessionOpen(ssn *vcframework.Session) {
	var summaries snapshot.Summaries
	defer summaries.Undo()
	for _, job := range ssn.Jobs {
		summaries.Show(job, job.PodGroup != nil && job.PodGroup.Spec.MinResources != nil) // upstream then compares the number of placed tasks with minMember
	}
	p.Plugin.OnSessionOpen(ssn)
}

// sumFor makes the addingPlugins in the tiers open on summaries from now on. A plugin that this project registered under such a
// name opens on complete jobs.
func (r *Registry) sumFor(tiers []conf.Tier) {
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
				vcframework.RegisterPluginBuilder(option.Name, func(args vcframework.Arguments) vcframework.Plugin { return summedPlugin{build(args)} })
			}
		}
	}
}

// closingJobs are the jobs of a session that closes, shown as summaries once their verdicts are written: upstream then adds up
// the allocated resources of queues, and reads nothing else of jobs. It is safe for concurrent use.
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
}
