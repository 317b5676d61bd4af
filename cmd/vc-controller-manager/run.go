// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"volcano.sh/apis/pkg/apis/helpers"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
	vcinformers "volcano.sh/apis/pkg/client/informers/externalversions"
	"volcano.sh/volcano/cmd/controller-manager/app/options"
	"volcano.sh/volcano/pkg/controllers/framework"
	"volcano.sh/volcano/pkg/kube"
	"volcano.sh/volcano/pkg/util"

	"github.com/volcano-prebind/volcano-prebind/internal/holder"
	"github.com/volcano-prebind/volcano-prebind/internal/outage"
	"github.com/volcano-prebind/volcano-prebind/pkg/controllers/jobs"
)

// errLeaseLost is returned when this process loses the leader lease. The process then ends, because its controllers would
// otherwise run beside the controllers of the next leader.
var errLeaseLost = errors.New("the leader lease was lost")

// serve runs the controllers until ctx ends. It replaces upstream's Run, whose informers pause for up to a minute after
// an outage of the API server. The informers here wait for the end of the outage.
func serve(ctx context.Context, opts *options.ServerOption) error {
	config, err := kube.BuildConfig(opts.KubeClientOptions)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config = outage.New(ctx).Wrap(config)
	if opts.EnableHealthz {
		if err := helpers.StartHealthz(opts.HealthzBindAddress, "volcano-controller", opts.CaCertData, opts.CertData, opts.KeyData); err != nil {
			return fmt.Errorf("listening on --healthz-address: %w", err)
		}
	}
	failed := make(chan error, 1)
	if opts.EnableMetrics {
		if err := serveMetrics(ctx, opts.ListenAddress, failed); err != nil {
			return err
		}
	}
	controllers, err := controllerOptions(config, opts)
	if err != nil {
		return err
	}
	run := func(ctx context.Context) { startControllers(ctx, controllers, opts.Controllers) }
	ended := make(chan error, 1)
	if opts.LeaderElection.LeaderElect {
		elector, err := newElector(ctx, config, opts, run)
		if err != nil {
			return err
		}
		go func() { elector.Run(ctx); ended <- errLeaseLost }()
	} else {
		run(ctx)
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	case err := <-ended:
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
}

// serveMetrics starts the metrics server. The server listens when serveMetrics returns; an error after that is sent to
// failed.
func serveMetrics(ctx context.Context, address string, failed chan<- error) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening on --listen-address: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", util.PromHandler())
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: helpers.DefaultReadHeaderTimeout,
		ReadTimeout: helpers.DefaultReadTimeout, WriteTimeout: helpers.DefaultWriteTimeout,
	}
	go func() { failed <- fmt.Errorf("serving metrics: %w", server.Serve(listener)) }()
	return nil
}

// controllerOptions returns the options that all controllers share.
func controllerOptions(config *rest.Config, opts *options.ServerOption) (*framework.ControllerOption, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating the client: %w", err)
	}
	volcano, err := vcclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating the client of Volcano's kinds: %w", err)
	}
	return &framework.ControllerOption{
		KubeClient: client, VolcanoClient: volcano, Config: config,
		SharedInformerFactory:   &factory{informers.NewSharedInformerFactory(client, 0)},
		VCSharedInformerFactory: &vcFactory{vcinformers.NewSharedInformerFactory(volcano, 0)},
		SchedulerNames:          opts.SchedulerNames,
		WorkerNum:               opts.WorkerThreads,
		CronJobWorkerNum:        opts.WorkerThreadsForCronJob,
		MaxRequeueNum:           opts.MaxRequeueNum,
		InheritOwnerAnnotations: opts.InheritOwnerAnnotations,
		WorkerThreadsForPG:      opts.WorkerThreadsForPG,
		WorkerThreadsForQueue:   opts.WorkerThreadsForQueue,
		WorkerThreadsForGC:      opts.WorkerThreadsForGC,
	}, nil
}

// startControllers starts the registered controllers that --controllers selects. If a controller cannot be created, the
// error is logged and the other controllers are started, as in upstream.
func startControllers(ctx context.Context, opts *framework.ControllerOption, selected []string) {
	framework.ForeachController(func(c framework.Controller) {
		if !enabled(c.Name(), selected) {
			klog.InfoS("Controller is not enabled", "controller", c.Name())
			return
		}
		own := *opts
		if c.Name() == jobs.ControllerName {
			own.VCSharedInformerFactory = jobs.Factory(opts.VCSharedInformerFactory)
		}
		if err := c.Initialize(&own); err != nil {
			klog.ErrorS(err, "Initializing a controller failed; it does not run", "controller", c.Name())
			return
		}
		go c.Run(ctx.Done())
	})
}

// enabled reports whether the list of the flag --controllers enables the controller. The first entry with the
// controller's name decides.
func enabled(name string, selected []string) bool {
	for _, entry := range selected {
		switch entry {
		case name, "+" + name:
			return true
		case "-" + name:
			return false
		}
	}
	return len(selected) == 0 || slices.Contains(selected, "*")
}

// newElector returns an elector that calls run while this process holds the lease.
func newElector(ctx context.Context, config *rest.Config, opts *options.ServerOption, run func(context.Context)) (*leaderelection.LeaderElector, error) {
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "leader-election"))
	if err != nil {
		return nil, fmt.Errorf("creating the client for leader election: %w", err)
	}
	identity, err := holder.Identity()
	if err != nil {
		return nil, err
	}
	election := &opts.LeaderElection
	namespace := election.ResourceNamespace
	if opts.LockObjectNamespace != "" { //nolint:staticcheck // upstream's former name of the flag
		namespace = opts.LockObjectNamespace //nolint:staticcheck // the same
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: client.CoreV1().Events(namespace)})
	lock, err := resourcelock.New(election.ResourceLock, namespace, election.ResourceName, client.CoreV1(), client.CoordinationV1(),
		resourcelock.ResourceLockConfig{
			Identity:      identity,
			EventRecorder: broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "vc-controller-manager"}),
		})
	if err != nil {
		return nil, fmt.Errorf("creating the lease lock: %w", err)
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          lock,
		LeaseDuration: election.LeaseDuration.Duration,
		RenewDeadline: election.RenewDeadline.Duration,
		RetryPeriod:   election.RetryPeriod.Duration,
		Callbacks:     leaderelection.LeaderCallbacks{OnStartedLeading: run, OnStoppedLeading: func() {}},
	})
	if err != nil {
		return nil, fmt.Errorf("creating the leader elector: %w", err)
	}
	return elector, nil
}
