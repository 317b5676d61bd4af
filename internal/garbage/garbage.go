// SPDX-License-Identifier: Apache-2.0

// Package garbage bounds the memory that garbage uses beside live objects. Go's default lets the heap double between
// collections. With a large heap, the garbage of sessions would then use as much memory as the objects of tenants. With a
// small heap, collections would be frequent, and would take time from scheduling.
package garbage

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// percent is how much the heap may grow between collections, in percent of its live part. least is how much it may
	// grow at least, in bytes.
	percent = 30
	least   = 256 << 20
	// most limits the percentage for small heaps, whose live part may grow fast.
	most = 400
)

// Bound bounds the garbage of the process from now on, unless the environment has GOGC.
func Bound() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
		adjustAfterEachCollection()
	}
}

// percentFor returns the percentage for a heap whose live part has the size.
func percentFor(live uint64) int {
	return max(percent, min(most, int(least*100/max(live, 1))))
}

// mark becomes garbage at once, so that its finalizer runs after the next collection. Objects of less than 16 bytes may share
// memory, and live longer.
type mark [32]byte

func adjustAfterEachCollection() {
	runtime.SetFinalizer(&mark{}, func(*mark) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		debug.SetGCPercent(percentFor(live[0].Value.Uint64()))
		adjustAfterEachCollection()
	})
}
