// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"strings"
	"testing"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestActionsThatGoByTheClockKeepCyclesRunning: on a cluster on which nobody waits.
func TestActionsThatGoByTheClockKeepCyclesRunning(t *testing.T) {
	tests := map[string]struct {
		actions string
		want    bool
	}{
		"allocate":         {actions: "enqueue allocate"},
		"one by the clock": {actions: "enqueue allocate shuffle", want: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := schedtest.NewCluster(schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeNode().Name("n").Obj())
			s := newTestScheduler(t, cluster, builtIn(t, tt.actions))
			if got := s.cycle(); got != tt.want {
				t.Errorf("the cycle says %t of whether another is to follow although nothing changes, want %t", got, tt.want)
			}
		})
	}
}

// TestANewConfigurationEndsWaits: it may be what a gang that failed needs.
func TestANewConfigurationEndsWaits(t *testing.T) {
	cfg := builtIn(t, "in-steps")
	cfg.Tiers = nil
	var s *scheduler
	s = newTestScheduler(t, gangOf(1), cfg, inSteps(t, func() *scheduler { return s }, binding.Step{
		Plugin:  "p",
		PreBind: func(context.Context, *api.TaskInfo, string) error { return errors.New("it is broken") },
	}))
	fails := func() bool {
		reason, blocked := s.cache.Blocked("ns/g")
		return blocked && strings.Contains(reason, "it is broken") // not for a transaction that has yet to end
	}
	eventually(t, func() bool {
		s.cycle()
		return fails()
	})
	if err := s.use(cfg); err != nil {
		t.Fatal(err)
	}
	if reason, blocked := s.cache.Blocked("ns/g"); blocked {
		t.Errorf("the gang still waits: %s", reason)
	}
}

// counting is a plugin that counts how often it recovers.
type counting struct{ recovered *int }

func (counting) Name() string                        { return "counting" }
func (counting) OnSessionOpen(*framework.Session)    {}
func (counting) OnSessionClose(*framework.Session)   {}
func (c counting) Recover(ctx context.Context) error { *c.recovered++; return ctx.Err() }

// TestAPluginThatAReloadBringsInRecovers: before its first session, and only then.
func TestAPluginThatAReloadBringsInRecovers(t *testing.T) {
	without := builtIn(t, "allocate")
	with := builtIn(t, "allocate")
	with.Tiers = append(with.Tiers, conf.Tier{Plugins: []conf.PluginOption{{Name: "counting"}}})
	s := newTestScheduler(t, gangOf(1), without)
	recovered := 0
	s.registry.RegisterPlugin(framework.PluginSpec{
		Name: "counting", New: func(framework.Arguments, framework.Handle) (framework.Plugin, error) {
			return counting{&recovered}, nil
		},
	})
	for range 2 {
		if err := s.use(with); err != nil {
			t.Fatal(err)
		}
		if recovered != 1 {
			t.Errorf("the plugin has recovered %d times, want once", recovered)
		}
	}
}
