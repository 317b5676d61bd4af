// SPDX-License-Identifier: Apache-2.0

package insession

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"time"
)

// Timed times f and marks it in profiles as the phase.
func Timed(phase string, f func()) (took time.Duration) {
	pprof.Do(context.Background(), pprof.Labels("phase", phase), func(context.Context) {
		start := time.Now()
		f()
		took = time.Since(start)
	})
	return took
}

// Median is that of a field over runs, of which there is one at least.
func Median[R any](runs []R, field func(R) float64) float64 {
	values := make([]float64, len(runs))
	for i, r := range runs {
		values[i] = field(r)
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

// profileRate is how many allocated bytes are sampled once in a profile of allocations.
const profileRate = 64 << 10

// Profile begins to write profiles of that name into the directory, of CPU and of allocations; it does nothing if that is empty. CPU samples of what is
// Timed carry the label phase. The function it returns ends it.
func Profile(dir, name string) (stop func() error, err error) {
	if dir == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	runtime.MemProfileRate = profileRate
	cpu, err := os.Create(filepath.Join(dir, name+".cpu.pprof"))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, err
	}
	return func() error {
		pprof.StopCPUProfile()
		heap, err := os.Create(filepath.Join(dir, name+".allocs.pprof"))
		if err != nil {
			return err
		}
		return errors.Join(cpu.Close(), pprof.Lookup("allocs").WriteTo(heap, 0), heap.Close())
	}, nil
}
