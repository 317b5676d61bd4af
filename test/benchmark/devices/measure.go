// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"syscall"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/api/devices/nvidia/vgpu"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
	"github.com/volcano-prebind/volcano-prebind/test/benchmark/insession"
)

// result is the cost of a row for one side, as medians over its runs.
type result struct {
	Runs int `json:"runs"`
	// Seconds is the time of the action alone, and OpenSeconds that of opening the session before it.
	Seconds     float64 `json:"seconds"`
	OpenSeconds float64 `json:"openSeconds"`
	// CPUSeconds is the processor time of the process during the action, including the garbage collector's.
	CPUSeconds  float64 `json:"cpuSeconds"`
	Allocations uint64  `json:"allocations"`
	// Placed is the number of pods that the action committed.
	Placed int `json:"placed"`
}

// perPod returns the time per placed pod.
func (r *result) perPod() float64 { return r.Seconds / float64(max(r.Placed, 1)) }

// run is one session.
type run struct {
	open, took, cpu time.Duration
	allocations     uint64
	placed          int
}

// use makes upstream's registry build this side's plugins, and sets upstream's vGPU mode, a variable of the process.
func use(side *insession.Side) {
	side.Use()
	vgpu.VGPUEnable, api.RegisteredDevices = side.Name == insession.Upstream, nil
	if vgpu.VGPUEnable {
		api.RegisteredDevices = []string{vgpu.DeviceName}
	}
}

// measure repeats the row until the plan's number of runs or its time is reached.
func (p *plan) measure(side *insession.Side, r row, progress io.Writer) (_ *result, err error) {
	fmt.Fprintf(progress, "%s %s: ", side.Name, r.name)
	use(side)
	stop, err := insession.Profile(p.ProfileDir, side.Name+"-"+r.name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	of := sessiontest.ClusterSpec{}
	if side.Name == insession.Ours {
		of.Devices = r.work.devices()
	}
	cluster := sessiontest.New(of)
	defer cluster.Close()
	var runs []run
	for began := time.Now(); len(runs) < p.Runs && (len(runs) == 0 || time.Since(began) < p.Budget); {
		one, err := runOnce(side, r, cluster)
		if err != nil {
			fmt.Fprintln(progress, "failed")
			return nil, fmt.Errorf("%s %s: %w", side.Name, r.name, err)
		}
		runs = append(runs, one)
	}
	out := &result{
		Runs:        len(runs),
		Seconds:     insession.Median(runs, func(r run) float64 { return r.took.Seconds() }),
		OpenSeconds: insession.Median(runs, func(r run) float64 { return r.open.Seconds() }),
		CPUSeconds:  insession.Median(runs, func(r run) float64 { return r.cpu.Seconds() }),
		Allocations: uint64(insession.Median(runs, func(r run) float64 { return float64(r.allocations) })),
		Placed:      int(insession.Median(runs, func(r run) float64 { return float64(r.placed) })),
	}
	fmt.Fprintf(progress, "%s (%d of %d pods placed; runs: %d)\n", insession.Seconds(out.Seconds), out.Placed, r.work.pods(), out.Runs)
	return out, nil
}

// cpuOf returns the processor time of this thread or process.
func cpuOf(who int) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(who, &usage); err != nil {
		panic(err) // Only a wrong argument causes an error.
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// runOnce fills the cluster, runs the side's action in one session, and checks the result.
func runOnce(side *insession.Side, r row, cluster *sessiontest.Cluster) (run, error) {
	cluster.Load(r.work.world(side.Name))
	action := side.NewAction()
	runtime.GC()
	var one run
	var ssn *sessiontest.Session
	one.open = insession.Timed("open", func() { ssn = cluster.Open(side.Registry, r.conf(side)) })
	defer ssn.Close()
	// Garbage of the opening must not be collected during the action.
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpuBefore := cpuOf(syscall.RUSAGE_SELF)
	one.took = insession.Timed("action", func() { ssn.Run(action) })
	one.cpu = cpuOf(syscall.RUSAGE_SELF) - cpuBefore
	runtime.ReadMemStats(&after)
	handed := ssn.Handed()
	one.allocations, one.placed = after.Mallocs-before.Mallocs, len(handed)
	if side.Name == insession.Upstream {
		return one, checkShared(r.work, handed)
	}
	return one, check(r.work, handed)
}
