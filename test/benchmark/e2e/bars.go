// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// bar is a bar for our scheduler from the plan of the benchmark.
type bar struct {
	what string
	// other is the scheduler with which ours is compared, or empty. mode is the mode of both.
	other, mode string
	// clusters reports whether the bar is for gangs that need one InfiniBand cluster each.
	clusters bool
	// claims is the kind of claims to which the bar applies.
	claims string
	// preempt reports whether the bar is for gangs that preempt.
	preempt bool
	// value returns the value that must be at least atLeast, or at most atMost, from the results of our scheduler and
	// the other one.
	value           func(ours, other group) float64
	atLeast, atMost float64
}

// bars are for full placement. Bars that involve other schedulers are for the default size.
var bars = slices.Concat([]bar{
	{what: "pods/s of upstream's", other: upstream, mode: pglast, atLeast: 5, value: ratioOf(podsPerSecond)},
	{what: "CPU of upstream's", other: upstream, mode: pglast, atMost: 1.0 / 8, value: ratioOf(schedulerCPU)},
	{what: "pods/s of kube-scheduler's", other: kube, mode: live, atLeast: 1.2, value: ratioOf(podsPerSecond)},
	{what: "pods/s", clusters: true, mode: pglast, atLeast: 400, value: func(ours, _ group) float64 { return ours.median(podsPerSecond) }},
	{what: "ms from a lone gang's last pod to its last bind", clusters: true, mode: pglast, atMost: 3000, value: func(ours, _ group) float64 {
		return ours.median(func(r result) float64 { return r.Lone.TailMaxMS })
	}},
	{what: "pods/s of upstream's", other: upstream, mode: live, claims: volumes, atLeast: 1, value: ratioOf(podsPerSecond)},
	{what: "pods/s of upstream's", other: upstream, mode: pglast, claims: volumes, atLeast: 1, value: ratioOf(podsPerSecond)},
	{what: "pods/s of kube-scheduler's", other: kube, mode: live, claims: volumes, atLeast: 1, value: ratioOf(podsPerSecond)},
	{what: "pods/s of upstream's", other: upstream, mode: live, claims: devices, atLeast: 1, value: ratioOf(podsPerSecond)},
	{what: "pods/s of upstream's", other: upstream, mode: pglast, claims: devices, atLeast: 1, value: ratioOf(podsPerSecond)},
	{what: "pods/s of kube-scheduler's", other: kube, mode: live, claims: devices, atLeast: 1, value: ratioOf(podsPerSecond)},
}, burstBars(live), burstBars(pglast))

// burstBars are for gangs that preempt in a full cluster.
func burstBars(mode string) []bar {
	return []bar{
		{what: "times sooner all bound than with upstream's", other: upstream, mode: mode, preempt: true, atLeast: 5, value: func(ours, other group) float64 {
			return other.median(burstSeconds) / ours.median(burstSeconds)
		}},
		{what: "evictions issued for each needed", mode: mode, preempt: true, atMost: 1, value: func(ours, _ group) float64 {
			return ours.highest(func(r result) float64 { return float64(r.Burst.Evicted) / float64(r.Burst.Needed) })
		}},
		{what: "ms of delay of the slowest small gang", mode: mode, preempt: true, atMost: 100, value: func(ours, _ group) float64 {
			return ours.median(func(r result) float64 { return r.Burst.delayMS() })
		}},
		{what: "ms from a small gang's first creation to its last bind", mode: mode, preempt: true, atMost: 1000, value: func(ours, _ group) float64 {
			return ours.highest(func(r result) float64 { return r.Burst.loneMaxMS() })
		}},
	}
}

func podsPerSecond(r result) float64 { return r.PodsPerSecond }
func schedulerCPU(r result) float64  { return r.SchedulerCPUSeconds }
func burstSeconds(r result) float64  { return r.Burst.Seconds }

func ratioOf(field func(result) float64) func(ours, other group) float64 {
	return func(ours, other group) float64 { return ours.median(field) / other.median(field) }
}

// printBars prints the bars to which the trials apply. Its error names the bars that our scheduler missed.
func printBars(w io.Writer, p *plan, groups []group) error {
	var missed []error
	of := func(scheduler, mode string) (group, bool) {
		for _, g := range groups {
			if g.key.Scheduler == scheduler && g.key.Mode == mode && g.key.Placement == full {
				return g, true
			}
		}
		return group{}, false
	}
	title := "\nbars\n"
	for _, b := range bars {
		mine, ok := of(ours, b.mode)
		other, there := of(b.other, b.mode)
		if !ok || b.other != "" && !there || b.clusters != (p.ibClusters > 0) || b.claims != p.claims || b.preempt != p.preempts() {
			continue
		}
		value := b.value(mine, other)
		if math.IsNaN(value) || value == 0 {
			continue
		}
		bound, met := fmt.Sprintf("at least %.4g", b.atLeast), value >= b.atLeast
		if b.atMost > 0 {
			bound, met = fmt.Sprintf("at most %.4g", b.atMost), value <= b.atMost
		}
		verdict := "met"
		if !met {
			verdict = "MISSED"
			missed = append(missed, fmt.Errorf("%s: %.4g %s, want %s", b.mode, value, b.what, bound))
		}
		fmt.Fprint(w, title)
		title = ""
		row(w, b.mode, fmt.Sprintf("%.4g", value), b.what, bound, verdict)
	}
	return errors.Join(missed...)
}
