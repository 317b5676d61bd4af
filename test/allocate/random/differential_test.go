// SPDX-License-Identifier: Apache-2.0

package random

import (
	"fmt"
	"math"
	"testing"
)

// TestDifferential schedules random instances with upstream's action and with ours. Ours must break no constraint in
// any of them. The package's documentation states how the numbers of gangs must compare.
func TestDifferential(t *testing.T) {
	for name, test := range map[string]struct {
		mix
		compare comparison
	}{
		"alike tasks":                        {mix{gangs: 6, alike: true}, equal},
		"alike tasks in sub-groups":          {mix{gangs: 6, alike: true, subGroups: 60}, inSum},
		"one gang":                           {mix{gangs: 1, coupled: 50, subGroups: 10}, perInstance},
		"one gang of alike tasks, topology":  {mix{gangs: 1, alike: true, topology: true}, perInstance},
		"one gang, topology":                 {mix{gangs: 1, coupled: 30, subGroups: 20, topology: true}, perInstance},
		"many gangs":                         {mix{gangs: 6, coupled: 50, subGroups: 10}, inSum},
		"many gangs, topology":               {mix{gangs: 6, coupled: 30, subGroups: 20, topology: true, subGroupTierNames: true}, inSum},
		"many gangs with nothing in between": {mix{gangs: 10}, inSum},
	} {
		t.Run(name, func(t *testing.T) {
			d := differential{T: t, bench: newBench(t), mix: test.mix, compare: test.compare, upstreamFaults: map[string]int{}}
			eachSeed(t, d.play)
			d.report()
		})
	}
}

// comparison is the requirement on our action, in addition to keeping all constraints.
type comparison int

const (
	// equal requires the same number of gangs and of bound tasks in every instance.
	equal comparison = iota
	// perInstance requires, in every instance, at least as many gangs as upstream places in the worst of five runs.
	perInstance
	// inSum requires at least as many gangs as upstream's over all instances, within statistical error.
	inSum
)

// differential plays the instances of one mix and counts the results.
type differential struct {
	*testing.T
	bench *bench
	mix
	compare comparison

	instances, gangs int
	// void is the number of instances in which upstream broke a constraint. Their numbers of gangs are not compared.
	void                 int
	ready, upstreamReady int
	more, fewer          int
	// left is the number of gangs that upstream's action could place after our action was done.
	left           int
	upstreamFaults map[string]int
}

func (d *differential) play(seed uint64) (ok bool) {
	theirs := d.mix.instance(seed)
	upstream := d.bench.run(theirs, d.bench.upstream)
	broken := d.countFaults(theirs, upstream)
	in := d.mix.instance(seed)
	// Our action runs twice. The second run places gangs that fit only beside gangs placed after them, for example
	// because of an affinity.
	inTurn := d.bench.runInTurn(in, d.bench.ours, d.bench.ours, d.bench.upstream)
	ours, done, after := inTurn[0], inTurn[1], inTurn[2]
	if *randomSeed > 0 {
		d.Logf("%s", describe(in, map[string]outcome{"upstream": upstream, "ours": ours, "upstream after ours": after}))
	}
	ok = true
	fail := func(format string, args ...any) {
		ok = false
		d.Errorf("-random.seed=%d: %s", seed, fmt.Sprintf(format, args...))
	}
	for _, fault := range faults(in, ours) {
		fail("%s", fault)
	}
	d.instances++
	d.gangs += len(in.world.PodGroups)
	if left := ready(in, after) - ready(in, done); left > 0 && !d.countFaults(in, after) {
		d.left += left
		d.Logf("-random.seed=%d: ours left %d gangs to upstream", seed, left)
		if d.compare == equal {
			fail("%d gangs were left to upstream", left)
		}
	}
	if more := len(after.bound) - len(done.bound); d.compare == equal && more > 0 {
		fail("%d tasks were left to upstream", more)
	}
	if broken {
		d.void++
		return ok
	}
	got, want := ready(in, ours), ready(theirs, upstream)
	if d.compare == perInstance && got < want {
		want = d.worst(seed, want)
	}
	d.ready += got
	d.upstreamReady += want
	if got > want {
		d.more++
	}
	if got < want {
		d.fewer++
	}
	if d.compare == perInstance && got < want || d.compare == equal && got != want {
		fail("%d gangs got their minimum, upstream %d", got, want)
	}
	if d.compare == equal && len(ours.bound) != len(upstream.bound) {
		fail("%d tasks were bound, upstream %d", len(ours.bound), len(upstream.bound))
	}
	return ok
}

// worst returns the smallest number of gangs that upstream places in five tries, because it breaks ties at random.
func (d *differential) worst(seed uint64, first int) int {
	for range 4 {
		in := d.mix.instance(seed)
		first = min(first, ready(in, d.bench.run(in, d.bench.upstream)))
	}
	return first
}

// countFaults counts the faults of upstream's placements by kind, and reports whether any fault is not a leak.
func (d *differential) countFaults(in instance, out outcome) (broken bool) {
	for _, fault := range faults(in, out) {
		d.upstreamFaults[fault.kind]++
		broken = broken || fault.kind != leaked
	}
	return broken
}

func (d *differential) report() {
	d.Logf("%d instances with %d gangs: %d gangs ready, upstream %d; more in %d instances, fewer in %d; %d gangs left to upstream; upstream broke constraints in %d (%v)",
		d.instances, d.gangs, d.ready, d.upstreamReady, d.more, d.fewer, d.left, d.void, d.upstreamFaults)
	if *randomSeed > 0 || d.Failed() {
		return
	}
	if deficit := d.upstreamReady - d.ready; float64(deficit) > 3*math.Sqrt(float64(d.more+d.fewer)) {
		d.Errorf("%d gangs got their minimum in %d instances, upstream %d: that is no chance", d.ready, d.instances, d.upstreamReady)
	}
	if d.left*1000 > d.gangs {
		d.Errorf("%d of %d gangs could have been placed after all, by upstream", d.left, d.gangs)
	}
	if d.ready == 0 {
		d.Error("no gang was scheduled: the instances are no test")
	}
}
