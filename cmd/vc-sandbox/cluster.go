// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
)

// sandbox is a running control plane with nodes, this project's scheduler and the controllers.
type sandbox struct {
	cp        *controlplane.ControlPlane
	scheduler *controlplane.Scheduler
}

// start starts all components of a sandbox, with the RBAC permissions of the chart. After an error, no process is left
// running.
func start(ctx context.Context, opts *options, progress io.Writer) (_ *sandbox, err error) {
	conf, err := os.ReadFile(opts.confPath)
	if err != nil {
		return nil, err
	}
	cp, err := controlplane.Start(ctx, controlplane.Options{
		BinDir: opts.binDir, Dir: opts.dir, Progress: &ticks{out: progress},
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, cp.Stop())
		}
	}()
	s := &sandbox{cp: cp}
	for _, step := range []func() error{
		func() error { return cp.InstallCRDs(ctx) },
		func() error { return cp.InstallChart(ctx) },
		func() error { return cp.CreateNodes(ctx, opts.nodes) },
		func() error {
			_, err := cp.StartControllerManager(ctx, controlplane.ManagerOptions{})
			return err
		},
		func() error {
			_, err := cp.StartWebhookManager(ctx, controlplane.ManagerOptions{})
			return err
		},
		func() (err error) {
			s.scheduler, err = cp.StartScheduler(ctx, controlplane.SchedulerOptions{
				Conf: string(conf),
				// The demo's provisioner is not a CSI driver, so no node reports attach limits for it. Without this
				// flag, claims of its class would count against such limits and fit nowhere.
				Args: []string{"--ignored-provisioners=" + diskClass},
			})
			return err
		},
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// heading describes the components that are about to be started.
func heading(opts *options) string {
	text := fmt.Sprintf("%d simulated nodes", opts.nodes.Count)
	if opts.nodes.IBClusters > 0 {
		text += fmt.Sprintf(" in %d InfiniBand clusters", opts.nodes.IBClusters)
	}
	return fmt.Sprintf("Starting a real control plane, %s (%s CPUs, %s, %d GPUs each) ...",
		text, opts.nodes.CPU, opts.nodes.Memory, opts.nodes.GPUs)
}

// ticks is a writer that puts a tick mark before each line. One call of Write may have several lines.
type ticks struct{ out io.Writer }

func (t *ticks) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		if _, err := fmt.Fprintf(t.out, "  ✓ %s", line); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}
