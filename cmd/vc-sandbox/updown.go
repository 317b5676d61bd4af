// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

const (
	// downTimeout is how long a sandbox may take to end.
	downTimeout = 45 * time.Second
	// downPoll is how often down checks whether the sandbox has ended.
	downPoll = 50 * time.Millisecond
)

const hints = `
Try, in another shell and after the line above:

  bin/kubectl get nodes -L ibcluster,leaf
  bin/kubectl apply -f config/samples/vcjob.yaml              # a Volcano job through the controller manager
  bin/kubectl get vcjob,pg,pods -o wide

  bin/kubectl label node node-0005 quarantine=xid-79          # the bindpolicy of config/samples refuses it
  bin/kubectl apply -f config/samples/gang.yaml               # a gang that needs all of ib-1: no pod is bound
  bin/kubectl describe pg train                               # reports why
  bin/kubectl label node node-0005 quarantine-                # the gang is placed at once

Scheduler: log %s, metrics %s
End it with Ctrl-C, or with ` + "`bin/vc-sandbox down`" + ` from anywhere.
`

// up starts a sandbox and waits until the context ends or a process of the sandbox ends unexpectedly. It writes
// variables for a shell to out, and all other output to info.
func up(ctx context.Context, opts *options, statePath string, out, info io.Writer) (err error) {
	if err := opts.complete(); err != nil {
		return err
	}
	held, err := holdState(statePath)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held.release()) }()
	if err := held.write(state{PID: os.Getpid()}); err != nil {
		return err
	}
	fmt.Fprintln(info, heading(opts))
	s, err := start(ctx, opts, info)
	if err != nil {
		if ctx.Err() != nil {
			return nil // the user ended the sandbox before its start was complete
		}
		return err
	}
	defer func() { err = errors.Join(err, s.cp.Stop()) }()
	if err := held.write(state{PID: os.Getpid(), Kubeconfig: s.cp.Kubeconfig()}); err != nil {
		return err
	}
	fmt.Fprintln(info)
	fmt.Fprintf(out, "export KUBECONFIG=%s\n", s.cp.Kubeconfig())
	fmt.Fprintf(info, hints, s.scheduler.LogPath(), s.scheduler.MetricsURL())
	select {
	case <-ctx.Done():
		fmt.Fprintln(info, "\nEnding the sandbox ...")
		return nil
	case err := <-s.cp.Dead():
		return err
	}
}

// down ends the sandbox that has locked the state file, and waits until the sandbox has ended.
func down(ctx context.Context, statePath string, terminate func(pid int) error, out io.Writer) error {
	file, err := openState(statePath, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintln(out, "No sandbox is running.")
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	held, err := lockState(file)
	if err != nil {
		return err
	}
	if !held {
		fmt.Fprintln(out, "No sandbox is running.")
		return nil
	}
	running, err := readState(file)
	if err != nil {
		return err
	}
	if err := terminate(running.PID); err != nil {
		return fmt.Errorf("ending process %d: %w", running.PID, err)
	}
	ctx, cancel := context.WithTimeout(ctx, downTimeout)
	defer cancel()
	tick := time.NewTicker(downPoll)
	defer tick.Stop()
	for held {
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d has not ended after SIGTERM: %w", running.PID, ctx.Err())
		case <-tick.C:
		}
		if held, err = lockState(file); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "The sandbox (process %d) has ended.\n", running.PID)
	return nil
}
