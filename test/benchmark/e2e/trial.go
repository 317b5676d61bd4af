// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// result has the measurements of a trial. The names of times end in their unit.
type result struct {
	trialKey
	Pods          int     `json:"pods"`
	Seconds       float64 `json:"seconds"`
	PodsPerSecond float64 `json:"podsPerSecond"`
	GangP50MS     float64 `json:"gangP50ms"`
	GangP99MS     float64 `json:"gangP99ms"`
	// SchedulerCPUSeconds is measured from the first creation until the scheduler no longer writes. It is zero for
	// raw.
	SchedulerCPUSeconds float64 `json:"schedulerCPUSeconds"`
	PeakMemoryMB        float64 `json:"peakMemoryMB"`
	// WritesPerPod has the writes by verb and resource. Rejected writes count in RefusedWrites only, in total.
	WritesPerPod  map[string]float64 `json:"writesPerPod"`
	RefusedWrites map[string]int     `json:"refusedWrites,omitempty"`
	// StillWriting reports whether writes were counted while they still went on.
	StillWriting     bool      `json:"stillWriting,omitempty"`
	OthersCPUSeconds othersCPU `json:"othersCPUSeconds"`
	// Quiet reports whether the machine was quiet just before the load.
	Quiet bool `json:"quiet"`

	IdleCPUSeconds float64   `json:"idleCPUSeconds"`
	Lone           loneTimes `json:"lone"`
	// Burst is measured instead of the writes, idle time and lone gangs if gangs preempt.
	Burst burst `json:"burst,omitzero"`
}

// othersCPU has the CPU seconds of other processes, from the first creation to the last bind.
type othersCPU struct {
	Driver       float64 `json:"driver"`
	ControlPlane float64 `json:"controlPlane"`
	Foreign      float64 `json:"foreign"`
}

// loneTimes are the times until lone gangs are bound.
type loneTimes struct {
	P50MS float64 `json:"p50ms"`
	MaxMS float64 `json:"maxms"`
	// TailMaxMS is measured from the sending of a gang's last object. P50MS and MaxMS are measured from the sending of
	// its first object.
	TailMaxMS float64 `json:"tailMaxms"`
}

// runTrial sets up the testbed, measures, and takes it down again.
func runTrial(ctx context.Context, key trialKey, p *plan, progress io.Writer) (_ result, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.limits.trial, fmt.Errorf("the trial took longer than %v", p.limits.trial))
	defer cancel()
	ctx, s, err := setUp(ctx, key, p, progress)
	if err != nil {
		return result{}, fmt.Errorf("%s: %w", key, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w%s", key, err, s.logTail())
		}
		err = errors.Join(err, s.tearDown())
	}()
	r := result{trialKey: key, Pods: p.pods()}
	if p.preempts() {
		err = s.measureBurst(ctx, &r)
		return r, err
	}
	if err := s.measure(ctx, &r); err != nil || s.scheduler == nil {
		return r, err
	}
	// Bound pods start to run, which causes events for the scheduler.
	if _, err := s.meter.waitQuiet(ctx, p.limits.quiet); err != nil {
		return r, err
	}
	if r.IdleCPUSeconds, err = s.idleCPU(ctx); err != nil {
		return r, err
	}
	lone, tails, err := s.loneGangs(ctx)
	r.Lone = loneTimes{milliseconds(quantile(lone, 0.5)), milliseconds(quantile(lone, 1)), milliseconds(quantile(tails, 1))}
	return r, err
}

// measure offers the load and records its cost.
func (s *testbed) measure(ctx context.Context, r *result) error {
	gangs := load(s.key, s.plan, s.nodes)
	if err := s.sendClaims(ctx, gangs...); err != nil {
		return err
	}
	s.watch.announce(gangs...)
	offer, finish, err := s.prepare(ctx, gangs)
	if err != nil {
		return err
	}
	if r.Quiet, err = s.meter.waitQuiet(ctx, s.plan.limits.quiet); err != nil {
		return err
	}
	offset, err := s.audit.size()
	if err != nil {
		return err
	}
	stopProfile := s.startProfile(ctx)
	before, err := s.meter.read()
	if err != nil {
		return err
	}
	first, err := offer()
	if err != nil {
		return err
	}
	last, err := await(ctx, gangs...)
	if err := errors.Join(err, finish()); err != nil {
		return err
	}
	after, err := s.meter.read()
	if err != nil {
		return err
	}
	if err := s.checkClusters(gangs...); err != nil {
		return err
	}
	s.book(r, gangs, last.Sub(first), after.minus(before))
	quiet, err := s.audit.waitQuiet(ctx, func() { r.SchedulerCPUSeconds = s.meter.schedulerSeconds() - before.scheduler })
	if err != nil {
		return err
	}
	r.StillWriting = !quiet
	writes, err := s.audit.since(offset)
	if err != nil {
		return err
	}
	r.RefusedWrites = writes.refused
	for kind, n := range writes.kinds {
		r.WritesPerPod[kind] = float64(n) / float64(r.Pods)
	}
	return stopProfile()
}

func (s *testbed) book(r *result, gangs []*gang, took time.Duration, used usage) {
	r.Seconds = took.Seconds()
	r.PodsPerSecond = float64(r.Pods-r.Burst.Unbound) / r.Seconds
	latencies := make([]time.Duration, 0, len(gangs))
	for _, g := range gangs {
		if g.binds.missing() == 0 {
			latencies = append(latencies, g.latency())
		}
	}
	r.GangP50MS, r.GangP99MS = milliseconds(quantile(latencies, 0.5)), milliseconds(quantile(latencies, 0.99))
	r.OthersCPUSeconds = othersCPU{used.driver, used.controlPlane, used.foreign()}
	if s.scheduler != nil {
		r.PeakMemoryMB = float64(s.scheduler.PeakRSS()) / 1e6
	}
	r.WritesPerPod = map[string]float64{}
}

// prepare does the work before the clock starts, and returns two functions. offer sends the objects that unblock
// scheduling, and returns when it began to. finish releases what offer started, once all pods are bound.
func (s *testbed) prepare(ctx context.Context, gangs []*gang) (offer func() (time.Time, error), finish func() error, err error) {
	finish = func() error { return nil }
	if s.key.Mode == pglast {
		if _, err := s.driver.send(ctx, s.driver.pods(gangs)); err != nil {
			return nil, nil, err
		}
	}
	if s.key.Placement == nominated {
		if _, err := s.driver.send(ctx, s.driver.nominations(gangs)); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case s.key.Scheduler == raw:
		offer, finish = s.rawOffer(ctx, gangs), s.raw.finish
	case s.key.Mode == pglast:
		offer = func() (time.Time, error) { return s.driver.send(ctx, s.driver.podGroups(gangs)) }
	default:
		offer = func() (time.Time, error) { return s.driver.send(ctx, s.driver.everything(gangs)) }
	}
	return offer, finish, nil
}

// rawOffer passes pods to the raw binder: all at once if they exist already, and otherwise each when it is created.
func (s *testbed) rawOffer(ctx context.Context, gangs []*gang) func() (time.Time, error) {
	if s.key.Mode == live {
		return func() (time.Time, error) { return s.driver.send(ctx, s.driver.pods(gangs)) }
	}
	return func() (time.Time, error) {
		start := time.Now()
		for _, g := range gangs {
			g.clock = start
			for _, pod := range g.pods {
				s.raw.add(pod)
			}
		}
		return start, nil
	}
}

// startProfile profiles a vc-scheduler in the background if the plan asks for it. The returned function waits for the
// end.
func (s *testbed) startProfile(ctx context.Context) func() error {
	if s.plan.profile.dir == "" || !usesPodGroups(s.key.Scheduler) {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	go func() { done <- s.profile(ctx) }()
	return func() error { return <-done }
}
