// SPDX-License-Identifier: Apache-2.0

package app

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// smallGarbage is how much garbage the heap may hold, in bytes, if that is between leastGarbagePercent and
	// mostGarbagePercent of live memory: a small scheduler seldom collects garbage.
	smallGarbage = 128 << 20
	// leastGarbagePercent applies to large heaps. Go's default of 100 would let the garbage of sessions use as much memory
	// as the objects of tenants. mostGarbagePercent bounds what a heap uses that grows before its limit is adjusted.
	leastGarbagePercent, mostGarbagePercent = 30, 100
	// sameGarbage is the relative change of the percentage, in percent, from which it is set again.
	sameGarbage = 20
)

// garbageBound limits how much the heap grows between garbage collections. If the environment sets GOGC, that applies
// instead. The zero value does nothing.
type garbageBound struct {
	// percent is the current limit, in percent of live memory; 0 if there is no limit of ours.
	percent int
}

func boundGarbage() garbageBound {
	if os.Getenv("GOGC") != "" {
		return garbageBound{}
	}
	debug.SetGCPercent(leastGarbagePercent)
	return garbageBound{percent: leastGarbagePercent}
}

// adjust sets the limit for the live memory that the last garbage collection has found.
func (b *garbageBound) adjust() {
	if b.percent == 0 {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if percent := garbagePercent(live[0].Value.Uint64()); max(percent-b.percent, b.percent-percent)*100 > b.percent*sameGarbage {
		debug.SetGCPercent(percent)
		b.percent = percent
	}
}

// garbagePercent returns the limit in percent for this amount of live memory, in bytes.
func garbagePercent(live uint64) int {
	return min(max(leastGarbagePercent, int(100*smallGarbage/max(live, 1))), mostGarbagePercent)
}
