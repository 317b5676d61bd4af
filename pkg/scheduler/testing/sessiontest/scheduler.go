// SPDX-License-Identifier: Apache-2.0

package sessiontest

import (
	vcscheduler "volcano.sh/volcano/pkg/scheduler"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
)

// Scheduler opens several sessions with the same plugins, as in production. It must be closed.
type Scheduler struct {
	cluster  *Cluster
	registry *framework.Registry
	profile  *framework.Profile
}

// Scheduler builds the plugins of the conf and returns a Scheduler with them. The registry must contain this project's
// plugins that the conf names. If it has no Reporter, it gets one as in production.
func (c *Cluster) Scheduler(registry *framework.Registry, confText string) *Scheduler {
	_, tiers, configurations, _, err := vcscheduler.UnmarshalSchedulerConf(confText)
	if err != nil {
		panic(err)
	}
	if registry.Reporter == nil {
		registry.Reporter = report.NewPendingGangs(nil)
	}
	profile, err := registry.Build(framework.ProfileInput{Tiers: tiers, Configurations: configurations}, c.Handle())
	if err != nil {
		panic(err)
	}
	if counter := profile.ResourceCounter(); counter != nil {
		c.handle.countResources(counter)
	}
	c.recover(profile)
	return &Scheduler{c, registry, profile}
}

// Open opens a session on a snapshot of the cluster. Only one session may be open at a time.
func (s *Scheduler) Open() *Session {
	recording := s.cluster.cache
	recording.reset()
	var cache framework.Cache = recording
	if recording.books != nil {
		cache = onBooks{recording}
	}
	return &Session{Session: s.registry.OpenSession(cache, s.profile), registry: s.registry, cache: recording}
}

// Close closes the plugins.
func (s *Scheduler) Close() { s.profile.Close() }
