// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// result is what one side needed for a work: medians over its runs.
type result struct {
	Runs int `json:"runs"`
	// Seconds is the time of the action alone, OpenSeconds that of opening the session before it and CloseSeconds that of
	// closing it, in which verdicts are put into words but not written anywhere.
	Seconds      float64 `json:"seconds"`
	OpenSeconds  float64 `json:"openSeconds"`
	CloseSeconds float64 `json:"closeSeconds"`
	// Allocations and Bytes are those of the action.
	Allocations uint64 `json:"allocations"`
	Bytes       uint64 `json:"bytes"`
	// Placed is how many pods the action handed over to be bound.
	Placed int `json:"placed"`
	// AgainSeconds is the time of the action in a second session of the same cluster, where that has a bar.
	AgainSeconds float64 `json:"againSeconds,omitempty"`
	// Hops compares places of neighbours; nil without InfiniBand clusters.
	Hops *hopCount `json:"hops,omitempty"`
}

// run is one session.
type run struct {
	open, took, closed time.Duration
	again              time.Duration
	allocations, bytes uint64
	placement          map[string]string
}

// bench measures, all works without claims on one cluster whose content is replaced for each run: upstream's cache has goroutines that do not
// end, so more of them would be a load of their own.
type bench struct {
	*plan
	cluster *sessiontest.Cluster
}

// measure repeats the work until the plan's runs or its time are used up.
func (b *bench) measure(s *side, name string, sh shape) (_ result, err error) {
	s.use()
	stop, err := b.startProfile(s.name + "-" + name)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	cluster, end := b.clusterFor(sh)
	defer end()
	var runs []run
	for began := time.Now(); len(runs) < b.runs && (len(runs) == 0 || time.Since(began) < b.budget); {
		r, err := b.run(s, sh, cluster)
		if err != nil {
			return result{}, fmt.Errorf("%s %s: %w", s.name, name, err)
		}
		runs = append(runs, r)
	}
	middle := func(field func(run) float64) float64 {
		values := make([]float64, len(runs))
		for i, r := range runs {
			values[i] = field(r)
		}
		slices.Sort(values)
		return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
	}
	out := result{
		Runs:         len(runs),
		Seconds:      middle(func(r run) float64 { return r.took.Seconds() }),
		OpenSeconds:  middle(func(r run) float64 { return r.open.Seconds() }),
		CloseSeconds: middle(func(r run) float64 { return r.closed.Seconds() }),
		Allocations:  uint64(middle(func(r run) float64 { return float64(r.allocations) })),
		Bytes:        uint64(middle(func(r run) float64 { return float64(r.bytes) })),
		AgainSeconds: middle(func(r run) float64 { return r.again.Seconds() }),
		Placed:       int(middle(func(r run) float64 { return float64(len(r.placement)) })),
	}
	if sh.clusters > 0 {
		out.Hops = countHops(sh, runs[0].placement)
	}
	return out, nil
}

// run fills the cluster, lets the side's action work in one session of it, and checks what came out.
func (b *bench) run(s *side, sh shape, cluster *sessiontest.Cluster) (run, error) {
	world := sh.world(s.groupsFor(sh))
	cluster.Load(world)
	action := s.newAction()
	runtime.GC()
	var r run
	var ssn *sessiontest.Session
	r.open = timed("open", func() { ssn = cluster.Open(s.registry, s.confFor(sh)) })
	if sh.claims || sh.devices > 0 {
		if err := claimsKnown(ssn); err != nil {
			return run{}, fmt.Errorf("waiting for claims: %w", err)
		}
	}
	// What the opening left behind is not the action's to clear away.
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r.took = timed("action", func() { ssn.Run(action) })
	runtime.ReadMemStats(&after)
	r.allocations, r.bytes = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	r.placement = ssn.Binds()
	if err := giveBack(ssn.Handed()); err != nil {
		return run{}, err
	}
	r.closed = timed("close", ssn.Close)
	if sh.changing {
		cluster.Cache().AddPod(newcomer(world.Nodes[len(world.Nodes)/2]))
	}
	if sh.unlike > 0 {
		again := cluster.Open(s.registry, s.confFor(sh))
		runtime.GC()
		r.again = timed("again", func() { again.Run(action) })
		again.Close()
	}
	return r, check(world, sh, r.placement)
}

// timed times f and marks it in profiles as the phase.
func timed(phase string, f func()) (took time.Duration) {
	pprof.Do(context.Background(), pprof.Labels("phase", phase), func(context.Context) {
		start := time.Now()
		f()
		took = time.Since(start)
	})
	return took
}

// profileRate is how many allocated bytes are sampled once in a profile of allocations.
const profileRate = 64 << 10

// startProfile begins to profile. CPU samples carry the label phase, whose values are open, action and close; those of
// what makes the clusters have none. The function it returns ends it.
func (p *plan) startProfile(name string) (stop func() error, err error) {
	if p.profileDir == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(p.profileDir, 0o755); err != nil {
		return nil, err
	}
	runtime.MemProfileRate = profileRate
	cpu, err := os.Create(filepath.Join(p.profileDir, name+".cpu.pprof"))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, err
	}
	return func() error {
		pprof.StopCPUProfile()
		heap, err := os.Create(filepath.Join(p.profileDir, name+".allocs.pprof"))
		if err != nil {
			return err
		}
		return errors.Join(cpu.Close(), pprof.Lookup("allocs").WriteTo(heap, 0), heap.Close())
	}, nil
}
