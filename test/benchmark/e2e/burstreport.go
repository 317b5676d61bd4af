// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
)

// printBursts prints the trials in which gangs preempt.
func printBursts(w io.Writer, p *plan, results []result) {
	fmt.Fprintf(w, "%d nodes run %d pods of %d cpus. %d gangs of %d pods of 1 cpu and higher priority arrive. kwok ends victims at once.\n\n",
		p.nodes, p.fillers(), p.fillerCPUs, p.gangs, p.gangSize)
	row(w, "scheduler", "mode", "run", "all bound", "unbound", "evictions", "evictions", "small before", "", "during", "", "", "delay", "whole max", "sched CPU", "peak mem", "foreign CPU")
	row(w, "", "", "", "s", "pods", "issued", "needed", "p50 ms", "max ms", "gangs", "p50 ms", "max ms", "ms", "ms", "s", "MB", "s")
	for _, r := range results {
		b, bound := r.Burst, number(r.Burst.Seconds, 2)
		if b.Unbound > 0 {
			bound = fmt.Sprintf("not within %.0f", b.Seconds)
		}
		row(w, r.Scheduler, r.Mode, fmt.Sprint(r.Run), bound, fmt.Sprint(b.Unbound), fmt.Sprint(b.Evicted), fmt.Sprint(b.Needed),
			number(b.Before.P50MS, 0), number(b.Before.MaxMS, 0), fmt.Sprint(b.During.Gangs), number(b.During.P50MS, 0), number(b.During.MaxMS, 0),
			number(b.delayMS(), 0), number(b.loneMaxMS(), 0), number(r.SchedulerCPUSeconds, 1), number(r.PeakMemoryMB, 0), number(r.OthersCPUSeconds.Foreign, 1))
	}
}

// printSooner prints how many times sooner all pods are bound with our scheduler than with the other one.
func printSooner(w io.Writer, groups []group) {
	for _, mine := range groups {
		for _, other := range groups {
			if mine.key.Scheduler != ours || other.key.Scheduler == ours || other.key.Mode != mine.key.Mode {
				continue
			}
			atLeast, limit := "", ""
			if slices.ContainsFunc(other.results, func(r result) bool { return r.Burst.Unbound > 0 }) {
				atLeast, limit = "at least ", fmt.Sprintf(", which does not bind all within %.0f s", other.median(burstSeconds))
			}
			if other.key.Scheduler == raw {
				fmt.Fprintf(w, "\n%s: all bound in %.1f times the time that the control plane takes for the same deletions and Bindings alone\n",
					mine.key.Mode, mine.median(burstSeconds)/other.median(burstSeconds))
				continue
			}
			sooner := other.median(burstSeconds) / mine.median(burstSeconds)
			fmt.Fprintf(w, "\n%s: all bound %s%.1f times sooner than with %s%s\n", mine.key.Mode, atLeast, sooner, other.key.Scheduler, limit)
		}
	}
}
