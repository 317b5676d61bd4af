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

// Median returns the median of a field over at least one run.
func Median[R any](runs []R, field func(R) float64) float64 {
	values := make([]float64, len(runs))
	for i, r := range runs {
		values[i] = field(r)
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

// profileRate is the number of allocated bytes per sample in a profile of allocations.
const profileRate = 64 << 10

// Profile starts to write CPU and allocation profiles with that name into the directory. If the directory is empty,
// it does nothing. CPU samples inside Timed have the label phase. The returned function ends the profiles.
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
