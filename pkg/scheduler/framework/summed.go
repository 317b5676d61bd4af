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

// addingPlugins are upstream's plugins that add up the requests of all tasks when a session opens, and look at nothing else of placed tasks then.
var addingPlugins = [...]string{"capacity", "drf", "overcommit", "proportion"}

// summedPlugin is a plugin of upstream that opens on summaries of jobs. What it calls later sees the jobs as they are.
type summedPlugin struct{ vcframework.Plugin }

func (p summedPlugin) OnSessionOpen(ssn *vcframework.Session) {
	var summaries snapshot.Summaries
	defer summaries.Undo()
	for _, job := range ssn.Jobs {
		summaries.Show(job, job.PodGroup != nil && job.PodGroup.Spec.MinResources != nil) // for which upstream compares the placed tasks with minMember
	}
	p.Plugin.OnSessionOpen(ssn)
}

// sumFor has those of upstream's plugins in the tiers that add up requests open on summaries from now on. A plugin that was registered under such a name is
// one of ours, and opens as it is.
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

// closingJobs are the jobs of a session that closes, shown as summaries once their verdicts are written: upstream then adds up what queues have
// allocated, and looks at nothing else of them. It may be used by several goroutines.
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
