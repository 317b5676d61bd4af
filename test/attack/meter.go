// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"
	"time"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
)

// usage is what the scheduler used in a round.
type usage struct {
	// memory is the most resident memory seen, in bytes; cores the processor time per second.
	memory int64
	cores  float64
}

// sampled is how often the scheduler's memory is read.
const sampled = 100 * time.Millisecond

// meter reads what a process uses until the function that start returns is called.
func meter(process *controlplane.Process) (stop func() usage) {
	ctx, cancel := context.WithCancel(context.Background())
	began, before := time.Now(), process.CPUSeconds()
	var used usage
	var reading sync.WaitGroup
	reading.Go(func() {
		_ = repeat(ctx, sampled, func() { used.memory = max(used.memory, process.RSS()) })
	})
	return func() usage {
		cancel()
		reading.Wait()
		used.cores = (process.CPUSeconds() - before) / time.Since(began).Seconds()
		return used
	}
}
