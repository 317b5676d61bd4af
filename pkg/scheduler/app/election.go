// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	commonutil "volcano.sh/volcano/pkg/util"

	"github.com/volcano-prebind/volcano-prebind/internal/holder"
)

var errLeaseLost = errors.New("the leader lease was lost; the next leader recovers bind transactions in flight")

// runElected runs the scheduler while this process holds the leader lease. When ctx ends, the process drains the
// scheduler before it releases the lease. So the next leader starts at once and finds no unfinished work.
func (p *process) runElected(ctx context.Context) error {
	lock, err := p.leaseLock()
	if err != nil {
		return err
	}
	p.starting.set(func() string { return "the lease " + p.opts.LeaderElection.ResourceName })
	p.rest = p.fence.wrap(p.rest) // the client of the lease exists already, so the fence does not stop its renewals
	return p.elect(ctx, lock, p.lead)
}

// elect takes part in leader election, and calls lead when this process holds the lease. It returns when lead has
// returned, the lease is lost, or ctx ends before this process leads.
func (p *process) elect(ctx context.Context, lock resourcelock.Interface, lead func(ctx, lifetime context.Context) error) error {
	election, endElection := context.WithCancel(context.WithoutCancel(ctx))
	defer endElection()
	leading := make(chan struct{})
	drained := make(chan error, 1)
	rejected := make(chan error, 1)
	lock = &guardedLock{Interface: lock, rejectionLimit: p.opts.LeaderElection.LeaseDuration.Duration, rejected: func(err error) {
		rejected <- err
		endElection()
	}, fence: &p.fence}
	p.fence.term = p.opts.LeaderElection.RenewDeadline.Duration
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   p.opts.LeaderElection.LeaseDuration.Duration,
		RenewDeadline:   p.opts.LeaderElection.RenewDeadline.Duration,
		RetryPeriod:     p.opts.LeaderElection.RetryPeriod.Duration,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(lease context.Context) {
				close(leading)
				drained <- lead(ctx, lease)
				endElection()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("creating the leader elector: %w", err)
	}
	stopStandby := context.AfterFunc(ctx, func() {
		select {
		case <-leading:
		default:
			endElection() // a process that has not led has nothing to drain
		}
	})
	defer stopStandby()
	elector.Run(election)
	select {
	case err := <-drained:
		return err
	case err := <-rejected:
		return err
	default:
	}
	if ctx.Err() != nil && election.Err() != nil {
		return nil
	}
	return errLeaseLost
}

func (p *process) leaseLock() (resourcelock.Interface, error) {
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(p.rest, "leader-election"))
	if err != nil {
		return nil, fmt.Errorf("creating the client for leader election: %w", err)
	}
	identity, err := holder.Identity()
	if err != nil {
		return nil, err
	}
	election := &p.opts.LeaderElection
	election.ResourceNamespace = p.opts.leaseNamespace()
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, election.ResourceNamespace, election.ResourceName,
		client.CoreV1(), client.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: identity})
	if err != nil {
		return nil, fmt.Errorf("creating the lease lock: %w", err)
	}
	return lock, nil
}

// serveLogLevel opens upstream's socket that changes the log level at run time. The environment variable
// DEBUG_SOCKET_DIR names the directory of the socket. Without the variable, serveLogLevel does nothing.
func serveLogLevel() error {
	dir := os.Getenv(commonutil.SocketDirEnvName)
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("creating %s: %w", commonutil.SocketDirEnvName, err)
	}
	go commonutil.ListenAndServeKlogLogLevel("klog", flag.CommandLine.Lookup("v").Value.String(), dir)
	return nil
}
