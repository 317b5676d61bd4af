// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// tailLines is how many lines of a log an error contains.
	tailLines = 30
	// tailBytes limits how many bytes at the end of a log are read for an error.
	tailBytes = 32 << 10
	// stopGrace is how long a process may take to end after SIGTERM.
	stopGrace = 10 * time.Second
)

// Process is a child process with a log file. Its methods are safe for concurrent use.
type Process struct {
	name   string
	log    string
	cmd    *exec.Cmd
	exited chan struct{}

	mu sync.Mutex
	// ending is set when a method of Process ends the process, so that its end is not reported as an error.
	ending bool
	// peakRSS is the largest resident memory, in bytes, that was read while the process ran.
	peakRSS int64
}

// startProcess starts a binary. Its output is appended to the file at logPath.
func startProcess(name, logPath, path string, args, env []string) (*Process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(path, args...)
	cmd.Env = append(withoutProxies(os.Environ()), env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := spawn(cmd); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p := &Process{name: name, log: logPath, cmd: cmd, exited: make(chan struct{})}
	go func() {
		// The exit status is read from ProcessState later, so the error of Wait is not needed.
		_ = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// withoutProxies returns env without the variables that select an HTTP proxy. Calls between processes of the control
// plane, such as calls of webhooks, must not go through a proxy.
func withoutProxies(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(strings.ToLower(v), "=")
		return name == "http_proxy" || name == "https_proxy" || name == "all_proxy"
	})
}

// Name returns the name of the process, which is also the name of its log file.
func (p *Process) Name() string { return p.name }

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// LogPath returns the file with the standard output and error of the process.
func (p *Process) LogPath() string { return p.log }

// LogTail returns the last lines of the log, at most n.
func (p *Process) LogTail(n int) string {
	f, err := os.Open(p.log)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > tailBytes {
		if _, err := f.Seek(-tailBytes, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(string(bytes.TrimRight(data, "\n")), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// Kill9 ends the process with SIGKILL and waits until it has ended.
func (p *Process) Kill9() error {
	if err := p.end(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.exited
	return nil
}

// Terminate sends SIGTERM to the process; it does not wait.
func (p *Process) Terminate() error { return p.end(syscall.SIGTERM) }

// Pause stops the process with SIGSTOP until Resume.
func (p *Process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume continues a paused process with SIGCONT.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

// Exited returns a channel that is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Wait waits until the process ends and returns its exit code, or 128+n if signal n ended it. It returns an error only if
// the context ends first.
func (p *Process) Wait(ctx context.Context) (int, error) {
	select {
	case <-p.exited:
		status, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
		if status.Signaled() {
			return 128 + int(status.Signal()), nil
		}
		return status.ExitStatus(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("waiting for the end of %s: %w", p.name, ctx.Err())
	}
}

// stop ends the process with SIGTERM. If the process does not end in time, it sends SIGKILL.
func (p *Process) stop() error {
	err := p.Terminate()
	// A paused process handles SIGTERM only after it is resumed.
	err = errors.Join(err, p.Resume())
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-p.exited:
		return err
	case <-timer.C:
		return errors.Join(err, p.Kill9())
	}
}

// end sends a signal that ends the process. It records the peak memory first, because the peak cannot be read after the
// end.
func (p *Process) end(sig syscall.Signal) error {
	p.PeakRSS()
	p.mu.Lock()
	p.ending = true
	p.mu.Unlock()
	return p.signal(sig)
}

func (p *Process) signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s to %s: %w", sig, p.name, err)
	}
	return nil
}

// died returns an error with the tail of the log if the process has ended unexpectedly; else nil.
func (p *Process) died() error {
	select {
	case <-p.exited:
	default:
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ending {
		return nil
	}
	return fmt.Errorf("%s ended (%s); the end of %s:\n%s", p.name, p.cmd.ProcessState, p.log, p.LogTail(tailLines))
}

// waitReady calls the probe until it returns nil. If the process ends or the timeout passes first, waitReady returns an
// error with the last error of the probe and the tail of the log.
func (p *Process) waitReady(ctx context.Context, timeout time.Duration, probe func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := probe(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended before it was ready (%s); the end of %s:\n%s",
				p.name, p.cmd.ProcessState, p.log, p.LogTail(tailLines))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %w; the end of %s:\n%s",
				p.name, ctx.Err(), err, p.log, p.LogTail(tailLines))
		case <-tick.C:
		}
	}
}
