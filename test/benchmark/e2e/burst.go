// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// smallGangs is the maximum number of small gangs that are submitted during the burst.
	smallGangs = 100
	// smallEvery is the mean time between small gangs. They do not wait for each other, so a long pause of the
	// scheduler delays as many of them as a user would see delayed.
	smallEvery = 250 * time.Millisecond
)

var errLimit = errors.New("the limit of the burst is over")

// burst has the measurements of gangs that arrive in a full cluster.
type burst struct {
	// Seconds is the time from the first creation to the last bind, or the limit if pods are unbound.
	Seconds float64 `json:"seconds"`
	Unbound int     `json:"unbound"`
	// Evicted is the number of pods whose eviction was issued. Needed is the least number without which the gangs do
	// not fit.
	Evicted int `json:"evicted"`
	Needed  int `json:"needed"`
	// Before and During have the small gangs for which no eviction is needed.
	Before smallTimes `json:"before"`
	During smallTimes `json:"during"`
}

// smallTimes are the times of small gangs from the sending of their last object to their last bind.
type smallTimes struct {
	Gangs int     `json:"gangs"`
	P50MS float64 `json:"p50ms"`
	MaxMS float64 `json:"maxms"`
	// WholeMaxMS is measured from the sending of a gang's first object.
	WholeMaxMS float64 `json:"wholeMaxms"`
}

func newSmallTimes(whole, tails []time.Duration) smallTimes {
	return smallTimes{len(tails), milliseconds(quantile(tails, 0.5)), milliseconds(quantile(tails, 1)), milliseconds(quantile(whole, 1))}
}

// delayMS returns how much later the slowest small gang of the burst was bound than the median gang before the burst.
func (b burst) delayMS() float64 { return b.During.MaxMS - b.Before.P50MS }

// loneMaxMS returns the time from the first creation to the last bind of the slowest small gang.
func (b burst) loneMaxMS() float64 { return max(b.Before.WholeMaxMS, b.During.WholeMaxMS) }

// measureBurst offers the gangs to the full cluster, with small gangs before and during that, and records the cost.
func (s *testbed) measureBurst(ctx context.Context, r *result) error {
	if _, err := s.meter.waitQuiet(ctx, s.plan.limits.quiet); err != nil {
		return err
	}
	whole, tails, err := s.loneGangs(ctx)
	if err != nil {
		return err
	}
	r.Burst = burst{Needed: s.plan.evictionsNeeded(), Before: newSmallTimes(whole, tails)}
	gangs := load(s.key, s.plan, s.nodes)
	s.watch.announce(gangs...)
	offer, release, err := s.prepare(ctx, gangs)
	if err != nil {
		return err
	}
	if r.Quiet, err = s.meter.waitQuiet(ctx, s.plan.limits.quiet); err != nil {
		return err
	}
	stopProfile := s.startProfile(ctx)
	before, err := s.meter.read()
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeoutCause(ctx, s.plan.limits.burst, errLimit)
	defer cancel()
	small := s.startSmallGangs(limited)
	took, err := s.awaitBurst(limited, r, gangs, offer)
	whole, tails, smallErr := small.finish()
	if err := errors.Join(err, smallErr, release()); err != nil {
		return err
	}
	r.Burst.During = newSmallTimes(whole, tails)
	after, err := s.meter.read()
	if err != nil {
		return err
	}
	s.book(r, gangs, took, after.minus(before))
	quiet, err := s.audit.waitQuiet(ctx, func() { r.SchedulerCPUSeconds = s.meter.schedulerSeconds() - before.scheduler })
	if err != nil {
		return err
	}
	r.StillWriting = !quiet && r.Burst.Unbound == 0
	r.Burst.Evicted = s.evictions.count()
	return stopProfile()
}

// awaitBurst offers the gangs and returns the time to their last bind, or the limit, over which ctx ends.
func (s *testbed) awaitBurst(ctx context.Context, r *result, gangs []*gang, offer func() (time.Time, error)) (time.Duration, error) {
	first, err := offer()
	if err != nil {
		return 0, err
	}
	took := s.plan.limits.burst
	last, err := await(ctx, gangs...)
	switch {
	case err == nil:
		took = last.Sub(first)
	case !errors.Is(err, errLimit):
		return 0, err
	}
	for _, g := range gangs {
		r.Burst.Unbound += g.binds.missing()
	}
	r.Burst.Seconds = took.Seconds()
	return took, nil
}

// smallStream submits small gangs until it is stopped.
type smallStream struct {
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu           sync.Mutex
	whole, tails []time.Duration
	errs         []error
}

// startSmallGangs submits a small gang about every smallEvery, smallGangs at most. A gang that is not bound when ctx
// ends at the limit of the burst counts with its time until then.
func (s *testbed) startSmallGangs(ctx context.Context) *smallStream {
	submitting, stop := context.WithCancel(ctx)
	stream := &smallStream{stop: stop}
	stream.wg.Go(func() {
		random := rand.New(rand.NewPCG(3, 4))
		for i := range smallGangs {
			if pause(submitting, smallEvery/2+time.Duration(random.Int64N(int64(smallEvery)))) != nil {
				return
			}
			g := s.smallGang(fmt.Sprintf("small-%04d", i))
			stream.wg.Go(func() { stream.add(g, time.Now(), func() (time.Duration, error) { return s.submit(ctx, g) }) })
		}
	})
	return stream
}

// smallGang returns a gang for which no eviction is needed. If gangs preempt, it is in another namespace than they are.
func (s *testbed) smallGang(name string) *gang {
	var nodeOf func(int) string
	if s.key.Scheduler == raw {
		nodeOf = func(int) string { return s.nodes[len(s.nodes)-1] }
	}
	g := s.plan.newGang(s.key.Scheduler, name, s.plan.loneSize, nodeOf)
	if s.plan.preempts() {
		g.moveTo(smallNamespace)
	}
	return g
}

// add submits a gang and records its times.
func (m *smallStream) add(g *gang, start time.Time, submit func() (time.Duration, error)) {
	whole, err := submit()
	var tail time.Duration
	switch {
	case err == nil:
		tail = g.latency()
	case errors.Is(err, errLimit):
		whole = time.Since(start)
		tail, err = whole, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.errs = append(m.errs, fmt.Errorf("small gang %s: %w", g.name, err))
		return
	}
	m.whole, m.tails = append(m.whole, whole), append(m.tails, tail)
}

// finish stops the stream and returns the times of its gangs when all of them are bound.
func (m *smallStream) finish() (whole, tails []time.Duration, err error) {
	m.stop()
	m.wg.Wait()
	return m.whole, m.tails, errors.Join(m.errs...)
}
