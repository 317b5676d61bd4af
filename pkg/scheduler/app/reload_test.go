// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/config"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestActionsThatGoByTheClockKeepCyclesRunning checks that actions that depend on time keep cycles running on a
// cluster where no gang waits.
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
				t.Errorf("without changes, the cycle reports %t on whether another must follow, want %t", got, tt.want)
			}
		})
	}
}

// TestANewConfigurationGetsACycleNow checks that a new configuration starts a cycle at once. The loop may be idle,
// and the configuration may let gangs be placed.
func TestANewConfigurationGetsACycleNow(t *testing.T) {
	s := newIdleScheduler(t, gangOf(1))
	s.loop.takeChanged()
	if err := s.use(builtIn(t, "allocate")); err != nil {
		t.Fatal(err)
	}
	if urgent := s.loop.isUrgent(); !urgent || !s.loop.takeChanged() {
		t.Error("no cycle was requested")
	}
}

// TestTheCauseOfAbandonedCyclesIsReported checks that run returns the reason why the watchdog ended the loop, although
// the drain after that succeeds.
func TestTheCauseOfAbandonedCyclesIsReported(t *testing.T) {
	cfg := builtIn(t, "panic")
	cfg.Tiers = nil
	var s *scheduler
	s = newIdleScheduler(t, gangOf(1), action{"panic", func(*framework.Session) {
		s.watchdog.mu.Lock()
		s.watchdog.since = time.Now().Add(-time.Hour)
		s.watchdog.mu.Unlock()
		panic("oh no")
	}})
	if err := s.use(cfg); err != nil {
		t.Fatal(err)
	}
	lifetime := t.Context()
	done := make(chan error, 1)
	go func() { done <- s.run(t.Context(), lifetime) }()
	if err := ended(t, done); !errors.Is(err, errPanicking) {
		t.Errorf("the run ended with %v, want %v", err, errPanicking)
	}
}

// TestEndOfBackoffs checks that a new configuration ends the backoff of a failed gang, because the new configuration
// may fix the failure. The end of an outage of the API server ends the backoff too.
func TestEndOfBackoffs(t *testing.T) {
	tests := map[string]func(t *testing.T, s *scheduler, cfg *config.Config){
		"a new configuration": func(t *testing.T, s *scheduler, cfg *config.Config) {
			if err := s.use(cfg); err != nil {
				t.Fatal(err)
			}
		},
		"the end of an outage": func(t *testing.T, s *scheduler, _ *config.Config) {
			tries := 0
			config := s.outage.Wrap(&rest.Config{Host: "https://server", Transport: roundTripper(func(*http.Request) (*http.Response, error) {
				if tries++; tries < 8 { // With the pauses between them, the outage lasts more than two seconds.
					return nil, errors.New("connection refused")
				}
				return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
			})})
			transport, err := rest.TransportFor(config)
			if err != nil {
				t.Fatal(err)
			}
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://server/api/v1/pods", nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := transport.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
		},
	}
	for name, end := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := builtIn(t, "in-steps")
			cfg.Tiers = nil
			var s *scheduler
			s = newTestScheduler(t, gangOf(1), cfg, inSteps(t, func() *scheduler { return s }, binding.Step{
				Plugin:  "p",
				PreBind: func(context.Context, *api.TaskInfo, string) error { return errors.New("it is broken") },
			}))
			fails := func() bool {
				reason, blocked := s.cache.Blocked("ns/g")
				return blocked && strings.Contains(reason, "it is broken") // not blocked by a transaction that has yet to end
			}
			eventually(t, func() bool {
				s.cycle()
				return fails()
			})
			end(t, s, cfg)
			if reason, blocked := s.cache.Blocked("ns/g"); blocked {
				t.Errorf("the gang still waits: %s", reason)
			}
		})
	}
}

// counting is a plugin that counts how often it recovers.
type counting struct{ recovered *int }

func (counting) Name() string                        { return "counting" }
func (counting) OnSessionOpen(*framework.Session)    {}
func (counting) OnSessionClose(*framework.Session)   {}
func (c counting) Recover(ctx context.Context) error { *c.recovered++; return ctx.Err() }

// TestAPluginThatAReloadBringsInRecovers checks that a plugin that a reload adds recovers once, before its first
// session. If reloads remove the plugin and add it again, it does not recover again: its steps may be in flight, and it
// would treat them as the work of a former leader.
func TestAPluginThatAReloadBringsInRecovers(t *testing.T) {
	without := builtIn(t, "allocate")
	with := builtIn(t, "allocate")
	with.Tiers = append(with.Tiers, conf.Tier{Plugins: []conf.PluginOption{{Name: "counting"}}})
	s := newTestScheduler(t, gangOf(1), without)
	recovered := 0
	s.registry.RegisterPlugin(framework.PluginSpec{
		Name: "counting", Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
			return counting{&recovered}, nil
		}),
	})
	for _, cfg := range []*config.Config{with, with, without, with} {
		if err := s.use(cfg); err != nil {
			t.Fatal(err)
		}
		if recovered != 1 {
			t.Errorf("the plugin has recovered %d times, want once", recovered)
		}
	}
}

// closing is a plugin that records the life of its numbered instances: "1 open" and so on.
type closing struct {
	instance int
	happened *[]string
	recover  error
}

func (*closing) Name() string                        { return "closing" }
func (c *closing) OnSessionOpen(*framework.Session)  { c.note("open") }
func (c *closing) OnSessionClose(*framework.Session) { c.note("session over") }
func (c *closing) Close()                            { c.note("close") }
func (c *closing) Recover(context.Context) error     { return c.recover }
func (c *closing) note(what string) {
	*c.happened = append(*c.happened, fmt.Sprintf("%d %s", c.instance, what))
}

// closingScheduler returns a scheduler, and a function that adds the plugin closing to a configuration. The plugin's
// Recover returns *recovers.
func closingScheduler(t *testing.T, recovers *error, happened *[]string, own ...framework.Action) (_ *scheduler, with func(*config.Config) *config.Config) {
	instances := 0
	spec := framework.PluginSpec{Name: "closing", Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
		instances++
		return &closing{instances, happened, *recovers}, nil
	})}
	with = func(cfg *config.Config) *config.Config {
		cfg.Tiers = append(cfg.Tiers, conf.Tier{Plugins: []conf.PluginOption{{Name: "closing"}}})
		return cfg
	}
	s := newTestScheduler(t, gangOf(1), builtIn(t, "allocate"), own...)
	s.registry.RegisterPlugin(spec)
	return s, with
}

// TestAReplacedPluginIsClosed checks that a replaced plugin is closed once, when its successor is in use and before
// the successor's first session. If the successor is rejected, the successor is closed instead.
func TestAReplacedPluginIsClosed(t *testing.T) {
	var happened []string
	var recovers error
	s, with := closingScheduler(t, &recovers, &happened)
	use := func(cfg *config.Config) {
		if err := s.use(cfg); (err == nil) != (recovers == nil) {
			t.Fatalf("the configuration is rejected with %v", err)
		}
	}
	use(with(builtIn(t, "allocate")))
	s.cycle()
	use(with(builtIn(t, "allocate")))
	s.cycle()
	s.cycle()
	use(builtIn(t, "allocate"))
	s.cycle()
	s.mu.Lock()
	s.atWork = nil // The next leader starts.
	s.mu.Unlock()
	recovers = errors.New("it is broken")
	synctest.Test(t, func(*testing.T) { use(with(builtIn(t, "allocate"))) }) // Recovery is retried for a minute.
	s.cycle()
	want := []string{"1 open", "1 session over", "1 close", "2 open", "2 session over", "2 open", "2 session over", "2 close", "3 close"}
	if diff := cmp.Diff(want, happened); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestAPluginIsNotClosedInASession checks that a plugin is not closed during a session if the reload comes while one
// is open.
func TestAPluginIsNotClosedInASession(t *testing.T) {
	var happened []string
	var recovers error
	var reload func()
	s, with := closingScheduler(t, &recovers, &happened, action{"reload", func(*framework.Session) { reload() }})
	if err := s.use(with(builtIn(t, "reload"))); err != nil {
		t.Fatal(err)
	}
	reload = func() {
		if err := s.use(builtIn(t, "allocate")); err != nil {
			t.Error(err)
		}
		happened = append(happened, "the other is in force")
	}
	s.cycle()
	s.cycle()
	want := []string{"1 open", "the other is in force", "1 session over", "1 close"}
	if diff := cmp.Diff(want, happened); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
