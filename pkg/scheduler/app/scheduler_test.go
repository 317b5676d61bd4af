// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	vcmetrics "volcano.sh/volcano/pkg/scheduler/metrics"

	"github.com/volcano-prebind/volcano-prebind/internal/outage"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/cache"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/config"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/metrics"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/evictionbackoff"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/transaction"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// eventually waits until the condition holds.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the condition did not become true")
		}
	}
}

// TestRegressionUnknownConfIgnored is for upstream's defect unknown-conf-ignored (docs/internals/upstream-defects.md):
// the process must end before it has sent a request to the API server.
func TestRegressionUnknownConfIgnored(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"a misspelt action":   {text: "actions: \"enqueue, alocate\"\n", want: "allocate"},
		"a misspelt argument": {text: "actions: \"allocate\"\ntiers:\n- plugins:\n  - name: predicates\n    arguments:\n      predicate.GPUSharingEnabled: true\n", want: "predicate."},
		"no YAML":             {text: "actions: [\n", want: ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			registerer := prometheus.DefaultRegisterer
			prometheus.DefaultRegisterer = prometheus.NewRegistry()
			defer func() { prometheus.DefaultRegisterer = registerer }()
			var calls atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
			defer server.Close()
			path := filepath.Join(t.TempDir(), "scheduler.conf")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			err := Run(t.Context(), parse(t, "--scheduler-conf", path, "--master", server.URL))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Run returned %v, want an error that names %q", err, tt.want)
			}
			if calls.Load() != 0 {
				t.Errorf("%d calls were made to the API server", calls.Load())
			}
		})
	}
}

// action is an action that runs a function of the test.
type action struct {
	name string
	run  func(ssn *framework.Session)
}

func (a action) Name() string                   { return a.name }
func (a action) Execute(ssn *framework.Session) { a.run(ssn) }

// kubeMetrics registers the metrics that plugins of the Kubernetes scheduling framework update, as Run does.
var kubeMetrics = sync.OnceFunc(vcmetrics.InitKubeSchedulerRelatedMetrics)

// builtIn returns the built-in configuration with other actions.
func builtIn(t *testing.T, actions string) *config.Config {
	t.Helper()
	cfg, err := config.NewLoader("", config.NewCatalogue(), false).Load()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Actions = strings.Fields(actions)
	return cfg
}

// TestBuiltInTiersPrecedeTheConfiguredTiers checks that the built-in tiers come first: plugin evictionbackoff, for
// gangs that evicted pods, and then plugin transaction, for partially bound gangs.
func TestBuiltInTiersPrecedeTheConfiguredTiers(t *testing.T) {
	var names []string
	s := newTestScheduler(t, clusterBeside(0), builtIn(t, "look"), action{"look", func(ssn *framework.Session) {
		for _, tier := range ssn.Tiers[:2] {
			names = append(names, tier.Plugins[0].Name)
		}
	}})
	s.cycle()
	if diff := cmp.Diff([]string{evictionbackoff.Name, transaction.Name}, names); diff != "" {
		t.Errorf("first plugins of the first tiers (-want +got):\n%s", diff)
	}
}

// TestAGangIsBoundWhileALaterActionRuns checks that a gang is bound while a later action runs, even the gang that was
// placed last. Preempt may take minutes.
func TestAGangIsBoundWhileALaterActionRuns(t *testing.T) {
	cluster := clusterBeside(0)
	cluster.Put(schedtest.MakePodGroup().Name("g").MinMember(2).Obj())
	for _, name := range []string{"p0", "p1"} {
		cluster.Put(schedtest.MakePod().Name(name).Group("g").Req(schedtest.Resources{"cpu": "1"}).Obj())
	}
	bound := func() bool {
		return cluster.Pod("p0").Spec.NodeName != "" && cluster.Pod("p1").Spec.NodeName != ""
	}
	s := newTestScheduler(t, cluster, builtIn(t, "enqueue allocate look"), action{"look", func(ssn *framework.Session) {
		if len(ssn.Jobs["ns/g"].TaskStatusIndex[api.Binding]) == 2 {
			eventually(t, bound)
		}
	}})
	eventually(t, func() bool { s.cycle(); return bound() })
}

// TestATurnIsASignOfLife checks that each job's turn counts as progress for the watchdog. A cycle that goes from job
// to job does not hang, however long it takes.
func TestATurnIsASignOfLife(t *testing.T) {
	var s *scheduler
	alive := false
	s = newTestScheduler(t, clusterBeside(0), builtIn(t, "look"), action{"look", func(ssn *framework.Session) {
		s.watchdog.last = time.Time{}
		ssn.SetCurrentJob("ns/g")
		alive = !s.watchdog.last.IsZero()
	}})
	if s.cycle(); !alive {
		t.Error("the turn is no sign of life")
	}
}

// newTestScheduler starts a scheduler with the configuration on a cluster in memory.
func newTestScheduler(t *testing.T, cluster *schedtest.Cluster, cfg *config.Config, own ...framework.Action) *scheduler {
	t.Helper()
	s := newIdleScheduler(t, cluster, own...)
	run(t, s, cfg)
	return s
}

// run starts the scheduler's cache with the configuration. At the end of the test it ends all transactions.
func run(t *testing.T, s *scheduler, cfg *config.Config) {
	t.Helper()
	if err := s.use(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := s.cache.Start(ctx, ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer cancel()
		grace, stop := context.WithTimeout(ctx, 5*time.Second)
		defer stop()
		if err := s.cache.Drain(grace); err != nil {
			t.Error(err)
		}
	})
}

// newIdleScheduler returns a scheduler on a cluster in memory, without a configuration, whose cache is not started.
func newIdleScheduler(t *testing.T, cluster *schedtest.Cluster, own ...framework.Action) *scheduler {
	t.Helper()
	kubeMetrics()
	s := &scheduler{
		opts: parse(t), registry: framework.NewRegistry(), metrics: metrics.New(prometheus.NewRegistry()),
		outage: outage.New(t.Context()), starting: &startup{}, watchdog: newWatchdog(), orphanPanics: &orphanPanics{},
	}
	s.pending = report.NewPendingGangs(s.metrics)
	s.loop = newLoop(s, time.Second)
	c, err := cache.On(cluster.Kube, cluster.Volcano, cache.Settings{
		Rest: cluster.Devices.RestConfig(), SchedulerNames: []string{schedtest.SchedulerName}, DefaultQueue: schedtest.Queue,
		Events: cluster.Events,
	}, s.metrics, s.loop.wake)
	if err != nil {
		t.Fatal(err)
	}
	s.connect(c)
	for _, spec := range PluginSpecs() {
		s.registry.RegisterPlugin(spec)
	}
	for _, a := range own {
		s.registry.RegisterAction(a)
	}
	return s
}

func gangOf(members int32) *schedtest.Cluster {
	cluster := schedtest.NewCluster(
		schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj(),
		schedtest.MakeNode().Name("n").Obj(), schedtest.MakePodGroup().Name("g").MinMember(members).Obj(),
	)
	for i := range members {
		cluster.Put(schedtest.MakePod().Name(fmt.Sprintf("p%d", i)).Group("g").Req(schedtest.Resources{"cpu": "1"}).Obj())
	}
	return cluster
}

func nodesOf(cluster *schedtest.Cluster, members int) []string {
	var nodes []string
	for i := range members {
		nodes = append(nodes, cluster.Pod(fmt.Sprintf("p%d", i)).Spec.NodeName)
	}
	return nodes
}

func TestCycleBindsAGang(t *testing.T) {
	cluster := gangOf(3)
	s := newTestScheduler(t, cluster, builtIn(t, "enqueue allocate backfill"))
	if !s.cycle() {
		t.Error("no remaining work is reported although the gang is being bound")
	}
	eventually(t, func() bool { return cmp.Equal([]string{"n", "n", "n"}, nodesOf(cluster, 3)) })
}

// TestCycleSurvivesAPanic checks that a cycle survives a panic. An action panics after it has committed half a gang.
// The process goes on, the half is not bound, and a later cycle binds the whole gang.
func TestCycleSurvivesAPanic(t *testing.T) {
	cluster := gangOf(2)
	panicking := true
	cfg := builtIn(t, "half allocate")
	cfg.Tiers = nil // No plugins, because an allocation outside of upstream's actions corrupts their state.
	s := newTestScheduler(t, cluster, cfg, action{"half", func(ssn *framework.Session) {
		if !panicking {
			return
		}
		statement := vcframework.NewStatement(ssn.Session)
		for _, task := range ssn.Jobs["ns/g"].Tasks {
			if task.Name == "p0" {
				if err := statement.Allocate(task, ssn.Nodes["n"]); err != nil {
					t.Error(err)
				}
			}
		}
		statement.Commit()
		panic("oh no")
	}})
	if !s.cycle() {
		t.Error("no remaining work is reported after a panic")
	}
	// The backoff may be over before this check, but the message on the PodGroup stays.
	eventually(t, func() bool { return unschedulableMessage(cluster.PodGroup("g")) != "" })
	if diff := cmp.Diff([]string{"", ""}, nodesOf(cluster, 2)); diff != "" {
		t.Errorf("nodes after the panic (-want +got):\n%s", diff)
	}
	panicking = false
	eventually(t, func() bool {
		s.cache.RetryAll()
		s.cycle()
		return cmp.Equal([]string{"n", "n"}, nodesOf(cluster, 2))
	})
}

// TestPlacementsOfAPanickedCycleAreUndone checks that placements of a cycle that panicked are reverted. Plugins'
// reservations for the claims of a placed pod outlive the session, and a session that panicked is not closed.
func TestPlacementsOfAPanickedCycleAreUndone(t *testing.T) {
	cluster := gangOf(0)
	cluster.Put(schedtest.MakePod().Name("p0").Group("g").Req(schedtest.Resources{"cpu": "1"}).ResourceClaim("device").Obj())
	cfg := builtIn(t, "half")
	cfg.Tiers = nil
	var takenBack []string
	s := newTestScheduler(t, cluster, cfg, action{"half", func(ssn *framework.Session) {
		ssn.AddEventHandler(&vcframework.EventHandler{DeallocateFunc: func(e *vcframework.Event) {
			takenBack = append(takenBack, e.Task.Name+" on "+e.Task.NodeName)
		}})
		for _, task := range ssn.Jobs["ns/g"].Tasks {
			if err := vcframework.NewStatement(ssn.Session).Allocate(task, ssn.Nodes["n"]); err != nil {
				t.Error(err)
			}
		}
		panic("oh no")
	}})
	s.cycle()
	if diff := cmp.Diff([]string{"p0 on n"}, takenBack); diff != "" {
		t.Errorf("taken back (-want +got):\n%s", diff)
	}
}

func TestRejectedProfileLeavesTheFormerInForce(t *testing.T) {
	s := newTestScheduler(t, gangOf(1), builtIn(t, "allocate"))
	former := s.current()
	if err := s.use(builtIn(t, "nonsense")); err == nil {
		t.Error("an action that is not registered was accepted")
	}
	if s.current() != former {
		t.Error("the former profile is no longer in use")
	}
}

// flaky is a Recoverer whose first calls fail.
type flaky struct{ left int }

func (f *flaky) Recover(context.Context) error {
	f.left--
	if f.left >= 0 {
		return errors.New("the API server is away")
	}
	return nil
}

func TestRecoveryIsTriedUntilItSucceeds(t *testing.T) {
	f := &flaky{left: 2}
	if err := recoverAll(t.Context(), []framework.NamedRecoverer{{Plugin: "p", Recoverer: f}}); err != nil || f.left != -1 {
		t.Errorf("recovery returned %v with %d failures left", err, f.left)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := recoverAll(ctx, []framework.NamedRecoverer{{Plugin: "p", Recoverer: &flaky{left: 1}}})
	if err == nil || !strings.Contains(err.Error(), "recovering plugin p: the API server is away") {
		t.Errorf("recovery that was cut short returned %v, want the plugin's own error too", err)
	}
}
