// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
	"github.com/volcano-prebind/volcano-prebind/test/benchmark/insession"
)

// result is the cost of a work for one side, as medians over its runs.
type result struct {
	Runs int `json:"runs"`
	// Seconds is the time of the action alone. OpenSeconds is the time to open the session before it. CloseSeconds is
	// the time to close the session, which composes the messages of verdicts but does not write them.
	Seconds      float64 `json:"seconds"`
	OpenSeconds  float64 `json:"openSeconds"`
	CloseSeconds float64 `json:"closeSeconds"`
	// Allocations and Bytes are those of the action.
	Allocations uint64 `json:"allocations"`
	Bytes       uint64 `json:"bytes"`
	// Placed is how many pods the action handed over to be bound.
	Placed int `json:"placed"`
	// AgainSeconds is the time of the action in a second session of the same cluster; 0 for a work without a second
	// session.
	AgainSeconds float64 `json:"againSeconds,omitempty"`
	// SessionSeconds is the time of that second session as a whole: its opening, the action and its closing.
	SessionSeconds float64 `json:"sessionSeconds,omitempty"`
	// Hops is the distance between neighbors in the gang; nil without InfiniBand clusters.
	Hops *hopCount `json:"hops,omitempty"`
}

// run is one session.
type run struct {
	open, took, closed time.Duration
	// again is the time of the action in a second session, and session the time of that session as a whole.
	again, session     time.Duration
	allocations, bytes uint64
	placement          map[string]string
}

// bench measures works. Works without claims, devices or a topology share one cluster, whose content is replaced for
// each run. Upstream's cache has goroutines that never end, so further clusters would add load.
type bench struct {
	*plan
	cluster *sessiontest.Cluster
}

// measure repeats the work until the plan's number of runs or its time is reached.
func (b *bench) measure(s *side, name string, sh shape) (_ result, err error) {
	s.Use()
	stop, err := insession.Profile(b.ProfileDir, s.Name+"-"+name)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	cluster, end := b.clusterFor(sh)
	defer end()
	var runs []run
	for began := time.Now(); len(runs) < b.Runs && (len(runs) == 0 || time.Since(began) < b.Budget); {
		r, err := b.run(s, sh, cluster)
		if err != nil {
			return result{}, fmt.Errorf("%s %s: %w", s.Name, name, err)
		}
		runs = append(runs, r)
	}
	middle := func(field func(run) float64) float64 { return insession.Median(runs, field) }
	out := result{
		Runs:           len(runs),
		Seconds:        middle(func(r run) float64 { return r.took.Seconds() }),
		OpenSeconds:    middle(func(r run) float64 { return r.open.Seconds() }),
		CloseSeconds:   middle(func(r run) float64 { return r.closed.Seconds() }),
		Allocations:    uint64(middle(func(r run) float64 { return float64(r.allocations) })),
		Bytes:          uint64(middle(func(r run) float64 { return float64(r.bytes) })),
		AgainSeconds:   middle(func(r run) float64 { return r.again.Seconds() }),
		SessionSeconds: middle(func(r run) float64 { return r.session.Seconds() }),
		Placed:         int(middle(func(r run) float64 { return float64(len(r.placement)) })),
	}
	if sh.clusters > 0 {
		out.Hops = countHops(sh, runs[0].placement)
	}
	return out, nil
}

// run fills the cluster, runs the side's action in one session, and checks the placement. Some works have a second
// session.
func (b *bench) run(s *side, sh shape, cluster *sessiontest.Cluster) (run, error) {
	world := sh.world(s.groupsFor(sh))
	cluster.UseBooks(s.Name == insession.Ours && !sh.storage.claims && sh.dra.devices == 0) // the books count no volumes
	cluster.Load(world)
	action := s.NewAction()
	runtime.GC()
	var r run
	var ssn *sessiontest.Session
	r.open = insession.Timed("open", func() { ssn = cluster.Open(s.Registry, s.confFor(sh)) })
	if sh.storage.claims || sh.dra.devices > 0 {
		if err := claimsKnown(ssn); err != nil {
			return run{}, fmt.Errorf("waiting for claims: %w", err)
		}
	}
	// Garbage of the opening must not be collected during the action.
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r.took = insession.Timed("action", func() { ssn.Run(action) })
	runtime.ReadMemStats(&after)
	r.allocations, r.bytes = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	r.placement = ssn.Binds()
	if err := releaseHanded(ssn.Handed()); err != nil {
		return run{}, err
	}
	r.closed = insession.Timed("close", ssn.Close)
	if sh.running.changing {
		cluster.AddPod(newcomer(world.Nodes[len(world.Nodes)/2]))
	}
	if sh.dra.shared > 0 {
		if err := changeSlice(cluster); err != nil {
			return run{}, fmt.Errorf("changing a slice: %w", err)
		}
	}
	if sh.unlike > 0 || sh.running.free > 0 || sh.dra.shared > 0 || sh.grouped.secondCPU != "" || sh.unlabelled {
		var again *sessiontest.Session
		runtime.GC()
		r.session = insession.Timed("open again", func() { again = cluster.Open(s.Registry, s.confFor(sh)) })
		runtime.GC()
		r.again = insession.Timed("again", func() { again.Run(action) })
		r.session += r.again + insession.Timed("close again", again.Close)
		if sh.dra.shared > 0 {
			if err := sh.allSearched(again); err != nil {
				return run{}, err
			}
		}
	}
	return r, check(world, sh, r.placement)
}
