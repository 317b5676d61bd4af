// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"
)

// round has the measurements during an attack, or without one.
type round struct {
	name string
	// delays are the times of the victim's small gangs, by kind, without the API server's share. That share is in
	// api: the delay until it shows their objects, and the time of the scheduler's calls.
	delays map[string][]time.Duration
	api    []time.Duration
	// wide and whole are the delays of the gang that needs half of the cluster during the attack, and of the gang
	// that needs all of it afterwards.
	wide, whole time.Duration
	usage
	tally
	// lasting are effects that no attack may have: unbound gangs, stopped pods, closed queues.
	lasting []string
}

// Times of a run. Baselines are as long as attacks.
const (
	shortest, longest = 3 * time.Second, 12 * time.Second
	// besides is the time of a round without its window, and setUpTime the time to start the cluster.
	besides   = 4 * time.Second
	setUpTime = 40 * time.Second
	// betweenBaselines is the number of attacks between two baselines.
	betweenBaselines = 8
)

// windowOf returns the length of each attack in a run of this many minutes.
func windowOf(minutes float64, attacks int) time.Duration {
	all := time.Duration(minutes*float64(time.Minute)) - setUpTime
	rounds := attacks + 1 + attacks/betweenBaselines
	return min(max(all/time.Duration(rounds)-besides, shortest), longest)
}

// round measures the victim's gangs during the attack, or without one if a is nil, and the lasting effects.
func (s *testbed) round(ctx context.Context, a *attack, window time.Duration) round {
	r := round{name: baseline, delays: map[string][]time.Duration{}}
	attacking, end := context.WithCancel(ctx)
	var carryOut sync.WaitGroup
	var failed error
	if a != nil {
		r.name = a.name
		carryOut.Go(func() { failed = a.begin(attacking, s) })
	}
	if a != nil && a.restarts {
		_ = pause(ctx, shortest)
		if err := s.restartScheduler(ctx); err != nil {
			r.lasting = append(r.lasting, err.Error())
		}
	}
	stop := meter(ctx, s.scheduler)
	if err := s.victim.stream(ctx, window, &r); err != nil {
		r.lasting = append(r.lasting, err.Error())
	}
	r.wide = s.bindOnce(ctx, wide(s.victim.next()), &r)
	end()
	carryOut.Wait()
	r.usage, r.tally = stop(), s.tenant.takeTally()
	if failed != nil {
		r.lasting = append(r.lasting, fmt.Sprintf("the attack could not be carried out: %v", failed))
	}
	if a != nil && a.run != nil && r.done+r.refused == 0 {
		r.lasting = append(r.lasting, "the tenant made no call")
	}
	if err := s.tidyUp(ctx); err != nil {
		r.lasting = append(r.lasting, err.Error())
	}
	r.whole = s.bindOnce(ctx, whole(s.victim.next()), &r)
	r.lasting = append(r.lasting, s.aftermath(ctx)...)
	if a != nil && a.after != nil {
		r.lasting = append(r.lasting, a.after(ctx, s)...)
	}
	return r
}

func (a *attack) begin(ctx context.Context, s *testbed) error {
	if a.breaks != nil {
		return a.breaks(ctx, s)
	}
	return a.run(ctx, s.tenant)
}

// bindOnce submits the victim's gang, records in the round if it is not bound, and removes it.
func (s *testbed) bindOnce(ctx context.Context, g gang, r *round) time.Duration {
	took, err := s.victim.bind(ctx, g, maxWait)
	if err := errors.Join(err, s.victim.remove(ctx, g)); err != nil {
		r.lasting = append(r.lasting, err.Error())
	}
	return took.bound.Sub(took.created)
}

// play runs the attacks in random order, with baselines before and in between. Its error contains all successful
// attacks.
func play(ctx context.Context, opts options, attacks []attack, out io.Writer) error {
	window := windowOf(opts.minutes, len(attacks))
	fmt.Fprintf(out, "%d attacks of %s each, seed %d\n", len(attacks), window.Round(time.Second/10), opts.seed)
	s, err := setUp(ctx, opts, out)
	if err != nil {
		return err
	}
	results, err := s.rounds(ctx, attacks, window)
	results.summary(out)
	if opts.selfTest {
		return errors.Join(err, results.unfound(attacks), s.cp.Stop())
	}
	return errors.Join(err, results.failed(), s.cp.Stop())
}

func (s *testbed) rounds(ctx context.Context, attacks []attack, window time.Duration) (results outcome, err error) {
	s.say("%s", header)
	// The first gangs pay for one-time work, such as lists and lazily built tables, which must not count against the
	// attacks.
	if warm := s.round(ctx, nil, shortest); len(warm.lasting) > 0 {
		return results, fmt.Errorf("without any attack: %v", warm.lasting)
	}
	random := rand.New(rand.NewPCG(s.opts.seed, 2))
	random.Shuffle(len(attacks), func(i, j int) { attacks[i], attacks[j] = attacks[j], attacks[i] })
	for i := range attacks {
		if i%betweenBaselines == 0 {
			base := s.round(ctx, nil, window)
			if len(base.lasting) > 0 {
				return results, fmt.Errorf("without any attack: %v", base.lasting)
			}
			s.say("%s", results.add(base).line())
		}
		r := s.round(ctx, &attacks[i], window)
		if err := ctx.Err(); err != nil {
			return results, err
		}
		judged := results.add(r)
		s.say("%s", judged.line())
		if len(judged.faults) > 0 {
			if err := s.restartScheduler(ctx); err != nil {
				return results, err
			}
		}
	}
	return results, nil
}
