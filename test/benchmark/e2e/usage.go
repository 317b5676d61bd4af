// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
)

// clockTicks is the number of clock ticks per second in /proc.
const clockTicks = 100

// quietCores is how much of the machine other processes may use while it counts as quiet.
const quietCores = 0.05

// usage has processor times in seconds since some start.
type usage struct {
	machine, driver, controlPlane, scheduler float64
}

func (u usage) minus(v usage) usage {
	return usage{u.machine - v.machine, u.driver - v.driver, u.controlPlane - v.controlPlane, u.scheduler - v.scheduler}
}

// foreign returns the processor time of all other processes.
func (u usage) foreign() float64 {
	return max(0, u.machine-u.driver-u.controlPlane-u.scheduler)
}

// meter reads the processor time of a trial's processes.
type meter struct {
	controlPlane []*controlplane.Process
	// scheduler is nil for raw.
	scheduler *controlplane.Process
}

// newMeter returns a meter. It counts a provisioner, if there is one, with the control plane.
func newMeter(cp *controlplane.ControlPlane, provisioner, scheduler *controlplane.Process) *meter {
	m := &meter{scheduler: scheduler}
	if provisioner != nil {
		m.controlPlane = append(m.controlPlane, provisioner)
	}
	for _, c := range []controlplane.Component{controlplane.Etcd, controlplane.APIServer, controlplane.ControllerManager, controlplane.KWOK} {
		if p := cp.Process(c); p != nil {
			m.controlPlane = append(m.controlPlane, p)
		}
	}
	return m
}

func (m *meter) read() (usage, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return usage{}, err
	}
	u := usage{}
	if u.machine, err = machineSeconds(stat); err != nil {
		return usage{}, err
	}
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		return usage{}, fmt.Errorf("getrusage: %w", err)
	}
	u.driver = time.Duration(self.Utime.Nano() + self.Stime.Nano()).Seconds()
	for _, p := range m.controlPlane {
		u.controlPlane += p.CPUSeconds()
	}
	u.scheduler = m.schedulerSeconds()
	return u, nil
}

func (m *meter) schedulerSeconds() float64 {
	if m.scheduler == nil {
		return 0
	}
	return m.scheduler.CPUSeconds()
}

// machineSeconds adds up the first line of /proc/stat without idle time and time waiting for I/O. Time stolen by the
// hypervisor counts, since it was taken from the trial. User time already includes guests' time.
func machineSeconds(stat []byte) (float64, error) {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < 9 || string(fields[0]) != "cpu" {
		return 0, fmt.Errorf("/proc/stat begins with %q", line)
	}
	const idle, iowait = 4, 5
	var ticks float64
	for i := 1; i <= 8; i++ {
		if i == idle || i == iowait {
			continue
		}
		n, err := strconv.ParseFloat(string(fields[i]), 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		ticks += n
	}
	return ticks / clockTicks, nil
}

// waitQuiet waits until other processes use little of the machine and the scheduler is idle, in steps of a second. It
// reports whether that happened within maxWait.
func (m *meter) waitQuiet(ctx context.Context, maxWait time.Duration) (bool, error) {
	deadline := time.Now().Add(maxWait)
	before, err := m.read()
	if err != nil {
		return false, err
	}
	for time.Now().Before(deadline) {
		began := time.Now()
		if err := pause(ctx, time.Second); err != nil {
			return false, err
		}
		after, err := m.read()
		if err != nil {
			return false, err
		}
		used, seconds := after.minus(before), time.Since(began).Seconds()
		if used.foreign()/seconds < quietCores && used.scheduler/seconds < 4*quietCores {
			return true, nil
		}
		before = after
	}
	return false, nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
