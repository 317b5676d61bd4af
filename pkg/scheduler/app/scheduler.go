// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	runtimedebug "runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcmetrics "volcano.sh/volcano/pkg/scheduler/metrics"

	"github.com/volcano-prebind/volcano-prebind/internal/outage"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/preempt"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/cache"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/config"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/debug"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/metrics"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/evictionbackoff"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/transaction"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
)

// timeDriven are upstream's actions and plugins whose results change with time alone. If one is configured, cycles run
// even when nothing in the cluster changed.
var timeDriven = []string{"shuffle", "tdm", "rescheduling"}

// reloadRecovery bounds how long the plugins that a reload of the configuration adds may take to recover.
const reloadRecovery = time.Minute

// scheduler is the state of a process while it leads.
type scheduler struct {
	opts         *Options
	registry     *framework.Registry
	metrics      *metrics.Metrics
	pending      *report.PendingGangs
	outage       *outage.Outage
	starting     *startup
	cache        *cache.Cache
	loop         *loop
	tries        *debug.EvictionTries
	watchdog     *watchdog
	orphanPanics *orphanPanics

	mu      sync.Mutex
	profile *framework.Profile
	// retired are configurations that were replaced since the last cycle began.
	retired []*framework.Profile
	// atWork are the plugins that have recovered since this process began to lead. They do not recover again, even if a
	// reload of the configuration removes them and a later reload adds them again. Their steps in flight have
	// continued, so anything that a second recovery found would be this process's own work.
	atWork map[string]bool
}

// newScheduler creates the scheduler and its cache. It waits for the API server until ctx ends.
func newScheduler(ctx context.Context, p *process) (*scheduler, error) {
	s := &scheduler{
		opts: p.opts, registry: p.registry, metrics: p.metrics, pending: p.shown.pending,
		outage: p.outage, starting: &p.starting, watchdog: p.watchdog, orphanPanics: p.orphanPanics,
	}
	s.loop = newLoop(s, p.opts.SchedulePeriod)
	c, err := cache.New(ctx, p.rest, p.opts.ServerOption, p.metrics, s.loop.wake)
	if err != nil {
		return nil, err
	}
	s.connect(c)
	return s, nil
}

// tried counts a try of an action to evict pods for gangs, and shows it at the debug endpoint.
func (s *scheduler) tried(t preempt.Try) {
	s.metrics.Evictions.Try(t.Action, t.Result, t.Took)
	if t.Result == preempt.Evicted {
		s.metrics.Evictions.Evicted(t.Action, len(t.Evicted), t.PutBack, t.Lost)
	}
	s.tries.Note(t)
}

// connect sets the scheduler's cache, and registers the built-in plugins.
func (s *scheduler) connect(c *cache.Cache) {
	s.cache, s.tries = c, debug.NewEvictionTries()
	// After an outage of the API server, calls that failed during the outage are retried.
	s.outage.WhenOver(c.APIServerBack)
	s.registry.OnJob(s.watchdog.beat)
	s.registry.Reporter = s.pending
	s.registry.RegisterPlugin(transaction.Spec(c))
	s.registry.RegisterPlugin(evictionbackoff.Spec())
	s.registry.RegisterAction(preempt.New(s.tried))
	s.registry.RegisterAction(preempt.NewReclaim(s.tried))
	for _, action := range preempt.Upstreams() {
		s.registry.RegisterAction(action)
	}
	s.registry.RegisterAction(allocate.New(allocate.WithTrialObserver(s.metrics.NodeGroupTrial), allocate.WithAttemptLimit()))
}

// use puts a configuration into effect from the next cycle on. It also lets gangs that wait after failures retry at
// once. On an error, the previous configuration stays in effect.
func (s *scheduler) use(cfg *config.Config) error {
	profile, err := s.registry.Build(framework.ProfileInput{
		Actions:         cfg.Actions,
		Tiers:           append([]conf.Tier{evictionbackoff.Tier(), transaction.Tier(cfg.EvictPartiallyBoundAfter)}, cfg.Tiers...),
		Configurations:  cfg.Configurations,
		PreBindDisabled: cfg.PreBindDisabled,
		Builders:        cfg.Builders,
	}, s.cache.Handle())
	if err != nil {
		return err
	}
	for _, name := range append(slices.Clone(cfg.Actions), cfg.PluginOrder()...) {
		profile.TimeDriven = profile.TimeDriven || slices.Contains(timeDriven, name)
	}
	if former := s.current(); former != nil {
		if err := s.bringIn(profile, former); err != nil {
			profile.Close()
			return err
		}
	}
	if counter := profile.ResourceCounter(); counter != nil {
		s.cache.Books().Nodes.Sums.Use(counter)
	}
	s.cache.SetMetricsConf(cfg.Metrics)
	s.mu.Lock()
	if s.profile != nil {
		s.retired = append(s.retired, s.profile)
	}
	s.profile = profile
	s.mu.Unlock()
	s.cache.RetryAll()
	s.loop.wake(cache.WakeNow)
	return nil
}

// bringIn waits until the informers have read the cluster, and lets the plugins that are new in profile recover. former
// is the previous configuration.
func (s *scheduler) bringIn(profile, former *framework.Profile) error {
	if profile.ResourceCounter() != nil && former.ResourceCounter() == nil {
		return errors.New("the configuration adds a plugin that counts resources of pods and nodes, which needs a restart")
	}
	ctx, cancel := context.WithTimeout(context.Background(), reloadRecovery)
	defer cancel()
	if err := s.cache.Handle().AwaitInformers(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	recoverers := profile.NewRecoverers(former, s.atWork)
	s.mu.Unlock()
	return s.recover(ctx, recoverers)
}

// run schedules until ctx ends and then drains. lifetime ends after the drain, and its end stops informers and writers.
// If lifetime ends before ctx, the lease is lost, and this process writes nothing more to the API server.
func (s *scheduler) run(ctx, lifetime context.Context) error {
	terminated := ctx
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(lifetime, func() {
		s.cache.Abort()
		stop()
	})()
	if err := s.prepare(ctx, lifetime); err != nil {
		switch {
		case lifetime.Err() != nil:
			return errLeaseLost
		case terminated.Err() != nil:
			return s.drain(lifetime) // SIGTERM arrived before the first cycle
		}
		return err
	}
	if s.opts.EnableCacheDumper {
		dumper := vccache.Dumper{Cache: cache.ForDump(s.cache), RootDir: s.opts.CacheDumpFileDir}
		dumper.ListenForSignal(lifetime.Done())
	}
	klog.InfoS("Scheduling starts")
	stuck := s.runLoop(ctx, stop)
	switch {
	case errors.Is(stuck, errHung):
		s.cache.Abort()
		return stuck
	case lifetime.Err() != nil:
		return errLeaseLost
	}
	return errors.Join(stuck, s.drain(lifetime))
}

// prepare fills the cache and lets plugins recover, before the first cycle.
func (s *scheduler) prepare(ctx, lifetime context.Context) error {
	err := s.starting.during(s.unfilled, func() error { return s.cache.Start(ctx, lifetime) })
	if err != nil {
		return err
	}
	return s.starting.during(func() string { return "plugins to recover the former leader's work" }, func() error {
		return s.recover(ctx, s.current().Recoverers())
	})
}

// recover calls the Recover functions of plugins, and records the plugins that have recovered.
func (s *scheduler) recover(ctx context.Context, recoverers []framework.NamedRecoverer) error {
	if err := recoverAll(ctx, recoverers); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.atWork == nil {
		s.atWork = map[string]bool{}
	}
	for _, r := range recoverers {
		s.atWork[r.Plugin] = true
	}
	return nil
}

// unfilled describes the initial lists that the cache still has to read, and the requests that the API server rejects.
func (s *scheduler) unfilled() string {
	what := "the initial lists"
	if kinds := s.cache.NotSynced(); len(kinds) > 0 {
		what += " of " + strings.Join(kinds, ", ")
	}
	if rejected := s.outage.Rejected(); rejected != "" {
		what += "; the API server does not answer " + rejected
	}
	return what
}

// recoverAll lets plugins undo or adopt whatever a former leader prepared and did not bind. It retries until each
// plugin has succeeded, because no session may open before. If ctx ends first, the error includes the plugin's last
// error.
func recoverAll(ctx context.Context, recoverers []framework.NamedRecoverer) error {
	for _, r := range recoverers {
		backoff := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Cap: 10 * time.Second, Steps: 1 << 30}
		var last error
		err := backoff.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
			if last = r.Recover(ctx); last != nil {
				klog.ErrorS(last, "Recovery of a former leader's work failed, retrying", "plugin", r.Plugin)
				return false, nil
			}
			return true, nil
		})
		if err != nil {
			return fmt.Errorf("recovering plugin %s: %w", r.Plugin, errors.Join(last, err))
		}
	}
	return nil
}

func (s *scheduler) drain(lifetime context.Context) error {
	klog.InfoS("Stopped scheduling, ending bind transactions in flight", "grace", s.opts.DrainGracePeriod)
	ctx, cancel := context.WithTimeout(lifetime, s.opts.DrainGracePeriod)
	defer cancel()
	return s.cache.Drain(ctx)
}

func (s *scheduler) current() *framework.Profile {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.profile
}

// beginCycle returns the configuration for the next cycle. It closes the configurations that were replaced since the last
// cycle began, because no session uses them any longer.
func (s *scheduler) beginCycle() *framework.Profile {
	s.mu.Lock()
	profile, retired := s.profile, s.retired
	s.retired = nil
	s.mu.Unlock()
	for _, former := range retired {
		former.Close()
	}
	return profile
}

func (s *scheduler) waiting() bool { return s.cache.Books().Jobs.AnyWaiting() }

func (s *scheduler) idle() {
	s.watchdog.beat()
	s.metrics.Cycle("idle")
}

// cycle runs one scheduling cycle. A panic ends the cycle and not the process: tasks that were already handed over are
// bound or rolled back like in any other transaction. unsettled reports whether another cycle must follow without a
// change of the cluster.
func (s *scheduler) cycle() (unsettled bool) {
	start := time.Now()
	profile := s.beginCycle()
	s.watchdog.beat()
	defer func() {
		if p := recover(); p != nil {
			s.panicked(s.registry.CurrentJob(), fmt.Sprint(p), runtimedebug.Stack())
			unsettled = true
		}
		s.metrics.SetQuarantined(s.cache.Quarantine().Counts())
	}()
	s.orphanPanics.takeRecorded()
	conf.EnabledActionMap = map[string]bool{}
	for _, action := range profile.Actions {
		conf.EnabledActionMap[action.Name()] = true
	}
	ssn := s.registry.OpenSession(s.cache, profile)
	for _, action := range profile.Actions {
		actionStart := time.Now()
		ssn.Execute(action)
		s.cache.Transactions().SubmitWhole()
		vcmetrics.UpdateActionDuration(action.Name(), time.Since(actionStart))
	}
	unsettled = profile.TimeDriven || hasWork(ssn.Jobs)
	s.registry.CloseSession(ssn)
	vcmetrics.UpdateE2eDuration(time.Since(start))
	if orphan := s.orphanPanics.all(s.cache.Quarantine().Searching()); orphan != nil {
		s.panicked("", orphan.what, orphan.stack)
		return true
	}
	s.watchdog.succeeded()
	s.metrics.Cycle("ok")
	return s.cache.Quarantine().CycleSucceeded() || unsettled
}

// hasWork reports whether a task is pending, placed or being deleted, or a PodGroup is neither Running nor Completed.
// In either case another cycle runs after a period.
func hasWork(jobs map[api.JobID]*api.JobInfo) bool {
	for _, job := range jobs {
		for _, status := range []api.TaskStatus{api.Pending, api.Pipelined, api.Allocated, api.Releasing} {
			if len(job.TaskStatusIndex[status]) > 0 {
				return true
			}
		}
		switch job.PodGroup.Status.Phase {
		case scheduling.PodGroupRunning, scheduling.PodGroupCompleted:
		default:
			return true
		}
	}
	return false
}
