package controlplane

import (
	"context"
	"errors"
)

// Process is a child process with a log file.
type Process struct{}

// Name is the process's name, also of its log file.
func (p *Process) Name() string { return "" }

// PID is the process id.
func (p *Process) PID() int { return 0 }

// LogPath is the file with standard output and error of the process.
func (p *Process) LogPath() string { return "" }

// LogTail returns the last lines of the log, at most n.
func (p *Process) LogTail(n int) string { return "" }

// Kill9 ends the process with SIGKILL and waits until it is gone.
func (p *Process) Kill9() error { return errors.ErrUnsupported }

// Terminate asks the process to end with SIGTERM; it does not wait.
func (p *Process) Terminate() error { return errors.ErrUnsupported }

// Pause stops the process with SIGSTOP until Resume.
func (p *Process) Pause() error { return errors.ErrUnsupported }

// Resume continues a paused process with SIGCONT.
func (p *Process) Resume() error { return errors.ErrUnsupported }

// Exited is closed once the process is gone.
func (p *Process) Exited() <-chan struct{} { return nil }

// Wait waits until the process ends and returns its exit code, 128+n when signal n ended it. The error is the
// context's.
func (p *Process) Wait(ctx context.Context) (int, error) { return 0, errors.ErrUnsupported }

// CPUSeconds is the processor time, user and system, that the process has used; the last known value once it ended.
func (p *Process) CPUSeconds() float64 { return 0 }

// PeakRSS is the most resident memory the process has had, in bytes; the last known value once it ended.
func (p *Process) PeakRSS() int64 { return 0 }

// Scheduler is a scheduler process.
type Scheduler struct {
	*Process
}

// MetricsURL is the address of the Prometheus endpoint.
func (s *Scheduler) MetricsURL() string { return "" }

// HealthURL is the address of the health endpoint.
func (s *Scheduler) HealthURL() string { return "" }

// ConfPath is the conf file given to the scheduler.
func (s *Scheduler) ConfPath() string { return "" }

// ReplaceConf replaces the conf of the running scheduler atomically, in the way its layout implies.
func (s *Scheduler) ReplaceConf(conf string) error { return errors.ErrUnsupported }
