// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
)

// usage is the scheduler's resource usage in a round.
type usage struct {
	// memory is the maximum resident memory in bytes, and cores the processor time per second.
	memory int64
	cores  float64
	// writes is the number of its writes to the API server.
	writes int
}

// sampled is the interval between reads of the scheduler's memory.
const sampled = 100 * time.Millisecond

// meter measures the scheduler's usage until the returned function is called.
func meter(ctx context.Context, scheduler *controlplane.Scheduler) (stop func() usage) {
	process := scheduler.Process
	sampling, cancel := context.WithCancel(context.Background())
	began, before, wrote := time.Now(), process.CPUSeconds(), writesOf(ctx, scheduler)
	var used usage
	var reading sync.WaitGroup
	reading.Go(func() {
		_ = repeat(sampling, sampled, func() { used.memory = max(used.memory, process.RSS()) })
	})
	return func() usage {
		cancel()
		reading.Wait()
		used.cores = (process.CPUSeconds() - before) / time.Since(began).Seconds()
		used.writes = max(0, writesOf(ctx, scheduler)-wrote)
		return used
	}
}

// written matches a metric of calls that write.
var written = regexp.MustCompile(`(?m)^rest_client_requests_total\{.*method="(?:POST|PUT|PATCH|DELETE)".*\} (\S+)$`)

// writesOf returns the number of the scheduler's writes since it started, or 0 if it does not answer.
func writesOf(ctx context.Context, scheduler *controlplane.Scheduler) int {
	text, err := scheduler.Metrics(ctx)
	if err != nil {
		return 0
	}
	return sumOf(text)
}

func sumOf(metrics []byte) (sum int) {
	for _, match := range written.FindAllSubmatch(metrics, -1) {
		if value, err := strconv.ParseFloat(string(match[1]), 64); err == nil {
			sum += int(value)
		}
	}
	return sum
}
