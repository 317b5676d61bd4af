// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane/faultproxy"
)

// ControlPlane is a running control plane. Its methods are safe for concurrent use.
type ControlPlane struct {
	opts    Options
	dir     folder
	tempDir bool
	ca      *authority
	admin   *rest.Config
	dead    chan error

	mu         sync.Mutex
	components map[Component]*component
	children   []*Process
	closers    []io.Closer
	names      map[string]int
	stopped    bool
}

// component is a process of the control plane, with the data that is needed to start it again.
type component struct {
	name   Component
	binary string
	args   []string
	ready  func(context.Context) error
	proc   *Process
}

// Start starts a control plane and waits until it is ready. After an error, no process is left running, and the error
// contains the tail of the failed component's log.
func Start(ctx context.Context, opts Options) (_ *ControlPlane, err error) {
	cp, err := prepare(opts)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			// Stop removes the logs, but the error already contains the tail of the failed component's log.
			err = errors.Join(err, cp.Stop())
		}
	}()
	plan, err := layOut(cp.opts, cp.dir)
	if err != nil {
		return nil, err
	}
	cp.ca, cp.admin, cp.components = plan.ca, plan.admin, plan.components
	for _, c := range []Component{Etcd, APIServer} {
		if err := cp.startComponent(ctx, c); err != nil {
			return nil, err
		}
	}
	// The last two components do not depend on each other, so they are started in parallel.
	rest := []Component{ControllerManager, KWOK}
	errs := make([]error, len(rest))
	var wg sync.WaitGroup
	for i, c := range rest {
		if cp.components[c] == nil {
			continue
		}
		wg.Go(func() { errs[i] = cp.startComponent(ctx, c) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return cp, nil
}

// prepare returns a control plane without processes. It sets defaults in the options and creates the directory for
// files.
func prepare(opts Options) (*ControlPlane, error) {
	if opts.BinDir == "" {
		root, err := RepoRoot()
		if err != nil {
			return nil, err
		}
		opts.BinDir = filepath.Join(root, "bin")
	}
	if opts.Progress == nil {
		opts.Progress = io.Discard
	}
	if opts.ReadyTimeout == 0 {
		opts.ReadyTimeout = time.Minute
	}
	cp := &ControlPlane{
		opts:  opts,
		dead:  make(chan error, 16),
		names: map[string]int{},
	}
	dir := opts.Dir
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "volcano-prebind-"); err != nil {
			return nil, err
		}
		cp.tempDir = true
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	cp.dir = folder(dir)
	for _, name := range []string{"pki", "etcd", "logs", "kubeconfig"} {
		if _, err := cp.dir.sub(name); err != nil {
			return nil, err
		}
	}
	return cp, nil
}

// startComponent starts a component that is not running, and waits until it is ready.
func (cp *ControlPlane) startComponent(ctx context.Context, name Component) error {
	began := time.Now()
	cp.mu.Lock()
	c := cp.components[name]
	switch {
	case cp.stopped:
		cp.mu.Unlock()
		return errors.New("the control plane was stopped")
	case c == nil:
		cp.mu.Unlock()
		return fmt.Errorf("%s is not part of this control plane", name)
	case c.proc != nil && !closed(c.proc.Exited()):
		cp.mu.Unlock()
		return fmt.Errorf("%s is running", name)
	}
	proc, err := startProcess(string(name), cp.dir.log(string(name)), c.binary, c.args, nil)
	if err != nil {
		cp.mu.Unlock()
		return err
	}
	c.proc = proc
	cp.mu.Unlock()
	if err := proc.waitReady(ctx, cp.opts.ReadyTimeout, c.ready); err != nil {
		return errors.Join(err, proc.Kill9())
	}
	go cp.watch(proc)
	cp.progress("%s is ready (%.1fs)", name, time.Since(began).Seconds())
	return nil
}

// watch waits until the process ends. It sends an error to the channel dead if the process ended unexpectedly.
func (cp *ControlPlane) watch(p *Process) {
	<-p.Exited()
	if err := p.died(); err != nil {
		select {
		case cp.dead <- err:
		default:
		}
	}
}

// Stop ends every process started through the control plane, schedulers first, and removes the directory if Start
// created it. It may be called several times.
func (cp *ControlPlane) Stop() error {
	cp.mu.Lock()
	cp.stopped = true
	children, closers := cp.children, cp.closers
	cp.children, cp.closers = nil, nil
	var order []*Process
	for _, name := range []Component{KWOK, ControllerManager, APIServer, Etcd} {
		if c := cp.components[name]; c != nil && c.proc != nil {
			order = append(order, c.proc)
		}
	}
	cp.mu.Unlock()

	var errs []error
	for _, c := range closers {
		errs = append(errs, c.Close())
	}
	errs = append(errs, stopAll(children))
	// The components, such as etcd and kube-apiserver, get SIGKILL: their last writes are not needed, and
	// kube-apiserver is slow to handle SIGTERM.
	for _, p := range order {
		errs = append(errs, p.Resume(), p.Kill9())
	}
	if cp.tempDir {
		errs = append(errs, os.RemoveAll(cp.Dir()))
	}
	return errors.Join(errs...)
}

// stopAll ends the processes in parallel.
func stopAll(procs []*Process) error {
	errs := make([]error, len(procs))
	var wg sync.WaitGroup
	for i, p := range procs {
		wg.Go(func() { errs[i] = p.stop() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Dir returns the directory with certificates, data and logs.
func (cp *ControlPlane) Dir() string { return string(cp.dir) }

// Dead returns a channel that receives an error for each process that ends unexpectedly. The error contains the tail of
// the log.
func (cp *ControlPlane) Dead() <-chan error { return cp.dead }

// Process returns the component's process; nil for a component that Options exclude.
func (cp *ControlPlane) Process(c Component) *Process {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.components[c] == nil {
		return nil
	}
	return cp.components[c].proc
}

// Kill ends the component with SIGKILL and waits until it has ended.
func (cp *ControlPlane) Kill(c Component) error {
	p := cp.Process(c)
	if p == nil {
		return fmt.Errorf("%s is not part of this control plane", c)
	}
	return p.Kill9()
}

// Restart starts a component that ended, with the same port and data, and waits until it is ready.
func (cp *ControlPlane) Restart(ctx context.Context, c Component) error {
	return cp.startComponent(ctx, c)
}

// StartFaultProxy starts a fault-injecting proxy in this process with a serving certificate of the control
// plane's CA. Stop closes it.
func (cp *ControlPlane) StartFaultProxy() (*faultproxy.Proxy, error) {
	pair, err := cp.ca.serving("faultproxy")
	if err != nil {
		return nil, err
	}
	cert, err := pair.tls()
	if err != nil {
		return nil, err
	}
	proxy, err := faultproxy.Start(faultproxy.Options{Upstream: rest.AnonymousClientConfig(cp.admin), Certificate: cert})
	if err != nil {
		return nil, err
	}
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.closers = append(cp.closers, proxy)
	return proxy, nil
}

// StartBeside starts a process that is no component of the control plane. Its name is the given name, with a number
// appended if the name was used before. Stop ends the process if the caller does not.
func (cp *ControlPlane) StartBeside(name, binary string, args ...string) (*Process, error) {
	return cp.startChild(cp.uniqueName(name), binary, args, nil)
}

// startChild starts a process that is no component of the control plane. Stop ends the process.
func (cp *ControlPlane) startChild(name, binary string, args, env []string) (*Process, error) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.stopped {
		return nil, errors.New("the control plane was stopped")
	}
	p, err := startProcess(name, cp.dir.log(name), binary, args, env)
	if err != nil {
		return nil, err
	}
	cp.children = append(cp.children, p)
	go cp.watch(p)
	return p, nil
}

// uniqueName returns the name. It appends a number if a process had the name before.
func (cp *ControlPlane) uniqueName(name string) string {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.names[name]++
	if n := cp.names[name]; n > 1 {
		return name + "-" + strconv.Itoa(n)
	}
	return name
}

func (cp *ControlPlane) progress(format string, args ...any) {
	fmt.Fprintf(cp.opts.Progress, format+"\n", args...)
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
