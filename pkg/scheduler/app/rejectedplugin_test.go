// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/conf"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/config"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// broken is a plugin that counts resources and that cannot work.
type broken struct{}

func (broken) Name() string                      { return "broken" }
func (broken) OnSessionOpen(*framework.Session)  {}
func (broken) OnSessionClose(*framework.Session) {}
func (broken) Recover(context.Context) error     { return errors.New("it is broken") }
func (broken) CountPod(*v1.Pod)                  {}
func (broken) Names() []v1.ResourceName          { return []v1.ResourceName{"example.com/gpu"} }
func (broken) ChangedNodes() []string            { return nil }

func (broken) CountNode(*v1.Node, iter.Seq[*v1.Pod]) (free, all map[v1.ResourceName]int64) {
	return nil, nil
}

// TestRejectedPlugins checks configurations whose plugins fail when they are built, or when they recover. They are rejected,
// and leave nothing behind.
func TestRejectedPlugins(t *testing.T) {
	for name, build := range map[string]framework.Builder{
		"a plugin that counts resources": func(framework.Handle) (framework.Plugin, error) { return broken{}, nil },
		"a plugin that panics":           func(framework.Handle) (framework.Plugin, error) { panic("it is broken") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestScheduler(t, gangOf(1), builtIn(t, "allocate"))
			former := s.current()
			s.registry.RegisterPlugin(framework.PluginSpec{Name: "broken", Load: framework.WithoutArguments(build)})
			rejected := builtIn(t, "allocate")
			rejected.Tiers = append(rejected.Tiers, conf.Tier{Plugins: []conf.PluginOption{{Name: "broken"}}})
			synctest.Test(t, func(t *testing.T) { expectRejected(t, s, rejected) })
			if s.cache.Books().Nodes.Sums.InUse() {
				t.Error("the resources are counted by a plugin of a rejected configuration")
			}
			if s.current() != former {
				t.Error("the former configuration is no longer in use")
			}
		})
	}
}

func expectRejected(t *testing.T, s *scheduler, cfg *config.Config) {
	t.Helper()
	if err := s.use(cfg); err == nil {
		t.Error("the configuration was accepted")
	}
}
