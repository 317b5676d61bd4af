// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
)

// testbed is the environment of a trial: a new control plane with nodes, a scheduler, and the measuring tools.
type testbed struct {
	key   trialKey
	plan  *plan
	cp    *controlplane.ControlPlane
	audit auditLog
	nodes []string
	// clusters has the InfiniBand cluster of each node.
	clusters map[string]string

	driver *driver
	watch  *bindWatch
	// evictions is nil unless gangs preempt.
	evictions *evictionWatch
	// provisioner creates the volumes that pods claim. It is nil without such claims.
	provisioner *controlplane.Process
	// scheduler is nil for raw. raw then binds the pods.
	scheduler *controlplane.Scheduler
	raw       *rawBinder
	meter     *meter

	dir    string
	cancel context.CancelCauseFunc
}

// setUp starts the testbed. The returned context ends, with the cause, when one of its processes dies.
func setUp(ctx context.Context, key trialKey, p *plan, progress io.Writer) (context.Context, *testbed, error) {
	s := &testbed{key: key, plan: p}
	ctx, s.cancel = context.WithCancelCause(ctx)
	if err := s.build(ctx, progress); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%w%s", err, s.logTail()), s.tearDown())
	}
	return ctx, s, nil
}

func (s *testbed) build(ctx context.Context, progress io.Writer) error {
	if err := s.makeDir(); err != nil {
		return err
	}
	policy := filepath.Join(s.dir, "audit-policy.yaml")
	s.audit = auditLog{filepath.Join(s.dir, "audit.log")}
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o644); err != nil {
		return err
	}
	var err error
	s.cp, err = controlplane.Start(ctx, controlplane.Options{
		Dir: s.dir, Progress: progress, APIServerArgs: s.audit.apiServerArgs(policy), ControllerManagerArgs: s.plan.controllerArgs(),
	})
	if err != nil {
		return err
	}
	go s.watchDeaths(ctx)
	if err := s.cp.InstallCRDs(ctx); err != nil {
		return err
	}
	if err := s.cp.InstallChart(ctx); err != nil {
		return err
	}
	if err := s.makeNodes(ctx); err != nil {
		return err
	}
	if s.driver, err = newDriver(s.cp.Config(), s.plan.writers); err != nil {
		return err
	}
	if err := s.driver.openQueue(ctx); err != nil {
		return err
	}
	if err := s.provide(ctx); err != nil {
		return err
	}
	if err := s.fill(ctx); err != nil {
		return err
	}
	if s.watch, err = startBindWatch(ctx, s.driver.kube); err != nil {
		return err
	}
	return s.startScheduler(ctx)
}

func (s *testbed) makeDir() (err error) {
	if s.plan.keepDir == "" {
		s.dir, err = os.MkdirTemp("", "volcano-prebind-bench-")
		return err
	}
	s.dir = filepath.Join(s.plan.keepDir, strings.NewReplacer(" ", "-", "#", "").Replace(s.key.String()))
	if err := os.MkdirAll(filepath.Dir(s.dir), 0o755); err != nil {
		return err
	}
	// A control plane with old data would not be a new one.
	return os.Mkdir(s.dir, 0o755)
}

func (s *testbed) makeNodes(ctx context.Context) error {
	s.clusters = map[string]string{}
	for _, shape := range s.plan.nodeShapes() {
		nodes, err := shape.Nodes()
		if err != nil {
			return err
		}
		for _, node := range nodes {
			s.nodes = append(s.nodes, node.Name)
			s.clusters[node.Name] = node.Labels[clusterLabel]
		}
		if err := s.cp.CreateNodes(ctx, shape); err != nil {
			return err
		}
	}
	return nil
}

func (s *testbed) startScheduler(ctx context.Context) error {
	if s.key.Scheduler == raw {
		// The identity, and therefore the audit, is the same as for a scheduler.
		config, err := s.cp.ServiceAccountConfig(ctx, controlplane.Namespace, controlplane.SchedulerServiceAccount)
		if err != nil {
			return err
		}
		client, err := protobufClient(config)
		if err != nil {
			return err
		}
		s.raw = startRawBinder(ctx, client, s.plan.rawVictims(s.nodes), s.plan.rawWriters, s.plan.pods())
		s.driver.created = func(pod *corev1.Pod) {
			if s.key.Mode == live || s.plan.preempts() && pod.Spec.PriorityClassName != urgent { // other pods are offered later
				s.raw.add(pod)
			}
		}
		s.meter = newMeter(s.cp, s.provisioner, nil)
		return nil
	}
	opts, err := schedulerOptions(s.key, s.plan)
	if err != nil {
		return err
	}
	if s.scheduler, err = s.cp.StartScheduler(ctx, opts); err != nil {
		return err
	}
	s.meter = newMeter(s.cp, s.provisioner, s.scheduler.Process)
	warmUp := s.plan.newGang(s.key.Scheduler, "warm-up", 2, nil)
	if _, err := s.submit(ctx, warmUp); err != nil {
		return fmt.Errorf("warming up: %w", err)
	}
	return nil
}

func (s *testbed) watchDeaths(ctx context.Context) {
	select {
	case err := <-s.cp.Dead():
		s.cancel(err)
	case <-ctx.Done():
	}
}

// logTail returns the end of the scheduler's log.
func (s *testbed) logTail() string {
	if s.scheduler == nil {
		return ""
	}
	return fmt.Sprintf("\nthe end of the scheduler's log:\n%s", s.scheduler.LogTail(20))
}

func (s *testbed) tearDown() error {
	s.cancel(nil)
	var errs []error
	if s.cp != nil {
		errs = append(errs, s.cp.Stop())
	}
	if s.dir != "" && s.plan.keepDir == "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}
