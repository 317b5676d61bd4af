// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
)

// restartDelay is the time before a scheduler that ended is restarted, as by a kubelet.
const restartDelay = time.Second

// replica keeps a scheduler running, as a kubelet would.
type replica struct {
	s       *soak
	binary  string
	retire  context.CancelFunc
	retired chan struct{}

	mu      sync.Mutex
	process *controlplane.Scheduler
}

func (s *soak) startSchedulers(ctx context.Context) error {
	path, err := binary("e2e-scheduler")
	if err != nil {
		return err
	}
	for range schedulers {
		life, retire := context.WithCancel(context.WithoutCancel(ctx))
		r := &replica{s: s, binary: path, retire: retire, retired: make(chan struct{})}
		s.replicas = append(s.replicas, r)
		go r.run(life)
	}
	return nil
}

// run starts the process again whenever it has ended.
func (r *replica) run(ctx context.Context) {
	defer close(r.retired)
	for ctx.Err() == nil {
		process, err := r.s.cp.StartScheduler(ctx, controlplane.SchedulerOptions{
			Binary: r.binary, Name: "scheduler", Conf: r.s.conf.current(), Server: r.s.proxy.URL(),
			LeaderElect: true, NoWait: true, Args: []string{"-v=2"},
		})
		if err == nil { // An error occurs because there are no credentials without the API server.
			r.set(process)
			select {
			case <-process.Exited():
				r.judge(process)
			case <-ctx.Done():
				return
			}
		}
		pause(ctx, restartDelay)
	}
}

// judge distinguishes a crash from a requested end.
func (r *replica) judge(process *controlplane.Scheduler) {
	if crash := crashOf(process.LogTail(2000)); crash != "" {
		r.s.violate("%s crashed: %s", process.Name(), cut(crash, 2000))
	}
}

// crash matches the beginning of the line that Go's runtime writes when it ends a process. A recovered panic is
// logged within a line.
var crash = regexp.MustCompile(`(?m)^(fatal error|panic): `)

// crashOf returns the text about a crash in a log, or an empty text.
func crashOf(log string) string {
	at := crash.FindStringIndex(log)
	if at == nil {
		return ""
	}
	return log[at[0]:]
}

func (r *replica) set(process *controlplane.Scheduler) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.process = process
}

// running returns the process. It is nil before the first one has started and after one has ended.
func (r *replica) running() *controlplane.Scheduler {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil {
		return nil
	}
	select {
	case <-r.process.Exited():
		return nil
	default:
		return r.process
	}
}

// awaitHealthy waits until the replica's process is healthy. A process may still end after the last fault, when it
// finds that its lease is lost. Then the next process counts.
func (r *replica) awaitHealthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()
	for {
		if process := r.running(); process != nil {
			err := process.WaitHealthy(ctx)
			if err == nil || r.running() == process {
				return err
			}
		}
		if !pause(ctx, glance) {
			return fmt.Errorf("no scheduler of a replica was healthy within %v: %w", recovery, context.Cause(ctx))
		}
	}
}

// cut returns the beginning of a text.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return text[:limit] + " ..."
}
