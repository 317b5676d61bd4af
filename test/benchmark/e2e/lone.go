package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// submit sends a gang and returns the time from its first creation to its last bind.
func (s *stage) submit(ctx context.Context, g *gang) (time.Duration, error) {
	s.watch.announce(g)
	start, err := s.driver.send(ctx, s.driver.everything([]*gang{g}))
	if err != nil {
		return 0, err
	}
	end, err := await(ctx, g)
	return end.Sub(start), err
}

// loneGangs submits gangs to the idle cluster one by one and returns how long each took. The pauses between them
// differ, so that they do not fall in step with a scheduler that works by the second.
func (s *stage) loneGangs(ctx context.Context) ([]time.Duration, error) {
	random := rand.New(rand.NewPCG(1, 2))
	var took []time.Duration
	for i := range s.plan.loneGangs {
		if err := pause(ctx, time.Second+time.Duration(random.IntN(1000))*time.Millisecond); err != nil {
			return nil, err
		}
		d, err := s.submit(ctx, newGang(s.key.Scheduler, fmt.Sprintf("lone-%04d", i), s.plan.loneSize, nil))
		if err != nil {
			return nil, fmt.Errorf("lone gang %d: %w", i, err)
		}
		took = append(took, d)
	}
	return took, nil
}

// idleCPU is what the scheduler uses in seconds while nothing happens, for the plan's time.
func (s *stage) idleCPU(ctx context.Context) (float64, error) {
	before := s.meter.schedulerSeconds()
	if err := pause(ctx, s.plan.idleFor); err != nil {
		return 0, err
	}
	return s.meter.schedulerSeconds() - before, nil
}
