// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// submit sends a gang and returns the time from its first creation to its last bind.
func (s *testbed) submit(ctx context.Context, g *gang) (time.Duration, error) {
	if err := s.sendClaims(ctx, g); err != nil {
		return 0, err
	}
	s.watch.announce(g)
	start, err := s.driver.send(ctx, s.driver.everything([]*gang{g}))
	if err != nil {
		return 0, err
	}
	end, err := await(ctx, g)
	if err != nil {
		return 0, err
	}
	return end.Sub(start), s.checkClusters(g)
}

// loneGangs submits gangs to the idle cluster one by one. It returns the times from the sending of each gang's first
// object, and from that of its last object, to its last bind. The pauses between the gangs differ, so that they do
// not keep step with a scheduler that has a period of a second.
func (s *testbed) loneGangs(ctx context.Context) (whole, tails []time.Duration, err error) {
	random := rand.New(rand.NewPCG(1, 2))
	for i := range s.plan.loneGangs {
		if err := pause(ctx, time.Second+time.Duration(random.IntN(1000))*time.Millisecond); err != nil {
			return nil, nil, err
		}
		g := s.smallGang(fmt.Sprintf("lone-%04d", i))
		took, err := s.submit(ctx, g)
		if err != nil {
			return nil, nil, fmt.Errorf("lone gang %d: %w", i, err)
		}
		whole, tails = append(whole, took), append(tails, g.latency())
	}
	return whole, tails, nil
}

// checkClusters returns an error unless each gang that requires one cluster is in one.
func (s *testbed) checkClusters(gangs ...*gang) error {
	if s.plan.ibClusters == 0 {
		return nil
	}
	for _, g := range gangs {
		if clusters := g.binds.where(s.clusters); len(clusters) != 1 {
			return fmt.Errorf("gang %s was bound in %d clusters, not in one: %s", g.name, len(clusters), strings.Join(clusters, ", "))
		}
	}
	return nil
}

// idleCPU returns the scheduler's processor time in seconds while nothing happens, for the plan's time.
func (s *testbed) idleCPU(ctx context.Context) (float64, error) {
	before := s.meter.schedulerSeconds()
	if err := pause(ctx, s.plan.idleFor); err != nil {
		return 0, err
	}
	return s.meter.schedulerSeconds() - before, nil
}
