// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/kube"
	vcmetrics "volcano.sh/volcano/pkg/scheduler/metrics"

	"github.com/volcano-prebind/volcano-prebind/internal/outage"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/config"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/debug"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/metrics"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
)

// Run runs the scheduler until the context ends, and then drains it. It returns an error if the process must exit: the
// configuration is invalid at start, or the lease is lost. While the API server is unavailable, Run waits.
func Run(ctx context.Context, opts *Options) error {
	p := &process{
		opts: opts, registry: framework.NewRegistry(), metrics: metrics.New(prometheus.DefaultRegisterer),
		watchdog: newWatchdog(), orphanPanics: &orphanPanics{},
	}
	p.shown.pending = report.NewPendingGangs(p.metrics)
	p.watchdog.waits = p.starting.waitsFor
	p.orphanPanics.catch()
	for _, spec := range opts.Plugins {
		p.registry.RegisterPlugin(spec)
	}
	p.loader = config.NewLoader(opts.SchedulerConf, config.NewCatalogue(opts.Plugins...), opts.DisableDefaultSchedulerConfig, config.WithAccept(p.accept))
	if _, err := p.loader.Load(); err != nil {
		return err
	}
	var err error
	if p.rest, err = clientConfig(opts); err != nil {
		return err
	}
	// Plugins of the Kubernetes scheduling framework count their goroutines in a metric that this call creates.
	vcmetrics.InitKubeSchedulerRelatedMetrics()
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	p.outage = outage.New(life)
	p.rest = p.outage.Wrap(p.rest)
	if err := startServers(life, opts, p.watchdog, &p.shown); err != nil {
		return err
	}
	if err := serveLogLevel(); err != nil {
		return err
	}
	err = p.starting.during(func() string { return "the API server" }, func() error { return matchFeatureGates(ctx, p.rest) })
	switch {
	case err != nil && ctx.Err() != nil:
		return nil // ctx ended before scheduling began
	case err != nil:
		return err
	case !opts.LeaderElection.LeaderElect:
		return p.lead(ctx, life)
	}
	return p.runElected(ctx)
}

// clientConfig returns the configuration of all API clients. Every call has a deadline, and objects are read as
// protobuf if the API server supports it.
func clientConfig(opts *Options) (*rest.Config, error) {
	config, err := kube.BuildConfig(opts.KubeClientOptions)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return withDeadline(config, callDeadline), nil
}

// process holds the state that exists whether or not this process leads. The configuration is read and checked at
// start, again when the process begins to lead, and then whenever the file changes.
type process struct {
	opts         *Options
	rest         *rest.Config
	registry     *framework.Registry
	metrics      *metrics.Metrics
	watchdog     *watchdog
	orphanPanics *orphanPanics
	loader       *config.Loader
	outage       *outage.Outage
	fence        fence
	starting     startup
	leading      *scheduler
	shown        debugged
}

// accept puts a valid configuration into effect; it returns an error if the plugins cannot be built. While this process
// does not lead, accept does nothing, because plugins are built with the cache of a leader.
func (p *process) accept(cfg *config.Config) error {
	if p.leading == nil {
		return nil
	}
	return p.leading.use(cfg)
}

// lead runs the scheduler until ctx ends, and then drains it. lifetime ends when the lease is lost, or after the drain.
func (p *process) lead(ctx, lifetime context.Context) error {
	var s *scheduler
	err := p.starting.during(func() string { return "the API server and the queues" }, func() (err error) {
		s, err = newScheduler(ctx, p)
		return err
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil // ctx ended before scheduling began
	case err != nil:
		return err
	}
	p.leading = s
	p.show(s)
	if _, err := p.loader.Load(); err != nil {
		// The configuration file changed while another process led, and its new content is invalid. The last accepted
		// configuration takes effect.
		if useErr := s.use(p.loader.Current()); useErr != nil {
			return errors.Join(err, useErr)
		}
		p.reloaded(nil, err)
	}
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	go func() {
		if err := p.loader.Watch(watching, p.reloaded); err != nil && !errors.Is(err, context.Canceled) {
			klog.ErrorS(err, "Watching the configuration file ended; it is no longer reloaded", "file", p.opts.SchedulerConf)
		}
	}()
	return s.run(ctx, lifetime)
}

// show makes the gangs of the leading scheduler available to the debug endpoint and the metrics.
func (p *process) show(s *scheduler) {
	view := debug.New(s.cache.Books().Jobs, s.cache.Transactions().GroupsInFlight, p.shown.pending.PendingReasons, s.gangDefaults, s.tries)
	p.shown.gangs.Store(view)
	p.metrics.CountGangs(view.Count)
}

// reloaded logs the result of reading a changed configuration, and reports it in a metric and an event.
func (p *process) reloaded(cfg *config.Config, err error) {
	p.metrics.ConfReloaded(err)
	lease := &v1.ObjectReference{
		APIVersion: "coordination.k8s.io/v1", Kind: "Lease",
		Namespace: p.opts.LeaderElection.ResourceNamespace, Name: p.opts.LeaderElection.ResourceName,
	}
	recorder := p.leading.cache.EventRecorder()
	if err != nil {
		klog.ErrorS(err, "Rejected the new configuration, keeping the current one", "file", p.opts.SchedulerConf)
		recorder.Eventf(lease, v1.EventTypeWarning, "ConfigRejected", "rejected the new configuration, keeping the current one: %v", err)
		return
	}
	klog.InfoS("New configuration in force", "file", p.opts.SchedulerConf, "actions", cfg.Actions, "plugins", cfg.PluginOrder())
	recorder.Eventf(lease, v1.EventTypeNormal, "ConfigReloaded", "new configuration in force (sha256 %.12s)", cfg.Hash)
}
