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

	"k8s.io/client-go/kubernetes"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
	"github.com/volcano-prebind/volcano-prebind/internal/controlplane/faultproxy"
	"github.com/volcano-prebind/volcano-prebind/test/e2e/control"
)

// soak is a run of the test.
type soak struct {
	opts  options
	out   io.Writer
	began time.Time

	cp    *controlplane.ControlPlane
	proxy *faultproxy.Proxy
	kube  kubernetes.Interface
	vc    vcclient.Interface
	// orders has the orders for the pre-bind plugin of the test's scheduler.
	orders   control.Dir
	replicas []*replica
	conf     *confs
	fleet    *fleet
	truth    *truth
	odd      oddObjects

	// levels has the usage of each process at the quiet points.
	levels map[int][]level

	// outage is held while a part of the control plane is stopped, and confTurn while the configuration is being
	// changed.
	outage, confTurn sync.Mutex

	mu sync.Mutex
	// upset is the number of times that each fault was caused.
	upset      map[string]int
	violations []string
}

const (
	// round is the time with faults between two quiet points, unless the chapter ends before.
	round = 40 * time.Second
	// evictsWithin is how long, in minutes, a run must be for pods to be evicted in any case: about once a minute.
	evictsWithin = 20
	// streams is the number of concurrent faults.
	streams = 2
)

// chapter is a part of the run.
type chapter struct {
	name  string
	share float64
	// lasting excludes faults that end schedulers.
	lasting bool
}

var chapters = []chapter{
	{"everything breaks", 0.25, false},
	{"schedulers live on", 0.5, true},
	{"everything breaks again", 0.25, false},
}

// play plays the chapters. Its error contains all failed checks.
func (s *soak) play(ctx context.Context) error {
	watching, stop := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	watchers.Go(func() { s.watchCapacity(watching) })
	watchers.Go(func() { s.fleet.keepUp(watching) })
	err := s.playChapters(ctx)
	if err == nil {
		var counted evictions
		counted, err = countEvictions(ctx, s.kube, s.fleet.sizes)
		s.say("%d pods were evicted for %d gangs", counted.pods, counted.gangs)
		if err == nil && counted.gangs == 0 && s.opts.minutes >= evictsWithin {
			err = errors.New("no pods were evicted for any gang: gangs of low priority leave too much room")
		}
	}
	stop()
	watchers.Wait()
	s.report()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.violations {
		err = errors.Join(err, errors.New(v))
	}
	return err
}

func (s *soak) playChapters(ctx context.Context) error {
	random := rand.New(rand.NewPCG(s.opts.seed, 1))
	for _, c := range chapters {
		s.say("chapter: %s", c.name)
		end := time.Now().Add(minutes(s.opts.minutes * c.share))
		for time.Now().Before(end) && ctx.Err() == nil {
			s.playRound(ctx, random, c, min(round, time.Until(end)))
			if err := s.quietPoint(ctx); err != nil {
				return err
			}
		}
		s.endOfChapter()
	}
	return ctx.Err()
}

// playRound submits gangs and causes faults for a while.
func (s *soak) playRound(ctx context.Context, random *rand.Rand, c chapter, length time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var work sync.WaitGroup
	work.Go(func() { s.fleet.churn(ctx) })
	for range streams {
		own := rand.New(rand.NewPCG(random.Uint64(), 3))
		work.Go(func() { s.breakThings(ctx, own, s.faults(c.lasting)) })
	}
	work.Wait()
}

// breakThings causes one fault after the other. The last fault is repaired even if the round is over.
func (s *soak) breakThings(ctx context.Context, random *rand.Rand, possible []fault) {
	for ctx.Err() == nil {
		f := possible[random.IntN(len(possible))]
		s.mu.Lock()
		s.upset[f.name]++
		s.mu.Unlock()
		if err := f.play(context.WithoutCancel(ctx), random); err != nil {
			s.violate("fault %q could not be played: %v", f.name, err)
		}
		pause(ctx, seconds(random, 0, 3))
	}
}

func (s *soak) violate(format string, args ...any) {
	text := fmt.Sprintf("after %s: ", time.Since(s.began).Round(time.Second)) + fmt.Sprintf(format, args...)
	s.say("VIOLATION %s", text)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.violations = append(s.violations, text)
}

func (s *soak) say(format string, args ...any) {
	fmt.Fprintf(s.out, "[%6.1fs] %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// pause waits for the duration. It returns false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
