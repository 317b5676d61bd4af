// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// foreignLimit is the maximum CPU time in seconds of other processes in a valid trial.
const foreignLimit = 1.0

// group has the results of one scheduler in one mode and placement, one for each run.
type group struct {
	key     trialKey
	results []result
}

func (g group) median(field func(result) float64) float64 { return medianOf(g.results, field) }

func (g group) highest(field func(result) float64) float64 {
	highest := math.Inf(-1)
	for _, r := range g.results {
		highest = max(highest, field(r))
	}
	return highest
}

// grouped groups the runs of the same trial, in the order of their first runs.
func grouped(results []result) []group {
	var groups []group
	for _, r := range results {
		key := r.trialKey
		key.Run = 0
		i := slices.IndexFunc(groups, func(g group) bool { return g.key == key })
		if i < 0 {
			groups = append(groups, group{key: key})
			i = len(groups) - 1
		}
		groups[i].results = append(groups[i].results, r)
	}
	return groups
}

// report prints the trials, their writes, and the comparison with our scheduler.
func report(out io.Writer, p *plan, results []result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	if p.preempts() {
		printBursts(w, p, results)
	} else {
		printTrials(w, results)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	printWarnings(out, results)
	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	groups := grouped(results)
	if p.preempts() {
		printSooner(w, groups)
	} else {
		printWrites(w, groups)
		printRatios(w, groups)
	}
	missed := printBars(w, p, groups)
	return errors.Join(w.Flush(), missed)
}

func printTrials(w io.Writer, results []result) {
	header := []string{"scheduler", "mode", "placement", "run", "pods/s", "gang p50", "gang p99", "sched CPU", "peak mem",
		"writes/pod", "events/pod", "cp CPU", "driver CPU", "foreign CPU", "idle CPU", "lone p50", "lone max", "last pod max"}
	units := []string{"", "", "", "", "", "ms", "ms", "s", "MB", "no events", "", "s", "s", "s", "s", "ms", "ms", "ms"}
	row(w, header...)
	row(w, units...)
	for _, r := range results {
		foreign := number(r.OthersCPUSeconds.Foreign, 1)
		if r.OthersCPUSeconds.Foreign > foreignLimit {
			foreign = "!" + foreign
		}
		cells := []string{r.Scheduler, r.Mode, r.Placement, fmt.Sprint(r.Run), number(r.PodsPerSecond, 0),
			number(r.GangP50MS, 0), number(r.GangP99MS, 0), number(r.SchedulerCPUSeconds, 1), number(r.PeakMemoryMB, 0),
			number(r.objectWrites(), 2), number(r.eventWrites(), 2), number(r.OthersCPUSeconds.ControlPlane, 1),
			number(r.OthersCPUSeconds.Driver, 1), foreign, number(r.IdleCPUSeconds, 2), number(r.Lone.P50MS, 0), number(r.Lone.MaxMS, 0), number(r.Lone.TailMaxMS, 0)}
		if r.Scheduler == raw {
			for _, i := range []int{7, 8, 14, 15, 16, 17} {
				cells[i] = "-"
			}
		}
		row(w, cells...)
	}
}

// row writes the cells of a line, each terminated for tabwriter.
func row(w io.Writer, cells ...string) { fmt.Fprintln(w, strings.Join(cells, "\t")+"\t") }

func number(v float64, decimals int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	return fmt.Sprintf("%.*f", decimals, v)
}

func printWarnings(out io.Writer, results []result) {
	for _, r := range results {
		if r.OthersCPUSeconds.Foreign > foreignLimit {
			fmt.Fprintf(out, "! %s: others used %.1f CPU seconds of this machine meanwhile; do not trust it\n", r.trialKey, r.OthersCPUSeconds.Foreign)
		}
		if r.StillWriting {
			fmt.Fprintf(out, "! %s: it was still writing when its writes were counted\n", r.trialKey)
		}
		for _, kind := range slices.Sorted(maps.Keys(r.RefusedWrites)) {
			fmt.Fprintf(out, "! %s: %d writes refused: %s\n", r.trialKey, r.RefusedWrites[kind], kind)
		}
	}
}

func printWrites(w io.Writer, groups []group) {
	fmt.Fprintln(w, "\nAPI writes per pod")
	for _, g := range groups {
		kinds := map[string]bool{}
		for _, r := range g.results {
			for kind := range r.WritesPerPod {
				kinds[kind] = true
			}
		}
		var parts []string
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			parts = append(parts, fmt.Sprintf("%s %.3f", kind, g.median(func(r result) float64 { return r.WritesPerPod[kind] })))
		}
		row(w, g.key.Scheduler, g.key.Mode, g.key.Placement, strings.Join(parts, ", "))
	}
}

// isEvent reports whether the kind of write concerns an event.
func isEvent(kind string) bool {
	_, resource, _ := strings.Cut(kind, " ")
	return resource == "events"
}

func (r result) eventWrites() (sum float64) {
	for kind, n := range r.WritesPerPod {
		if isEvent(kind) {
			sum += n
		}
	}
	return sum
}

func (r result) objectWrites() (sum float64) {
	for kind, n := range r.WritesPerPod {
		if !isEvent(kind) {
			sum += n
		}
	}
	return sum
}

// figures are the figures that become ratios.
var figures = []struct {
	name  string
	field func(result) float64
	// process reports whether raw, which is not a process of its own, lacks the figure.
	process bool
}{
	{"pods/s", podsPerSecond, false},
	{"gang p50", func(r result) float64 { return r.GangP50MS }, false},
	{"gang p99", func(r result) float64 { return r.GangP99MS }, false},
	{"sched CPU", schedulerCPU, true},
	{"peak mem", func(r result) float64 { return r.PeakMemoryMB }, true},
	{"writes", func(r result) float64 { return r.objectWrites() }, false},
	{"events", func(r result) float64 { return r.eventWrites() }, true},
	{"lone p50", func(r result) float64 { return r.Lone.P50MS }, true},
}

// printRatios prints our scheduler's figures divided by the others' figures in the same mode and placement.
func printRatios(w io.Writer, groups []group) {
	var lines [][]string
	for _, mine := range groups {
		if mine.key.Scheduler != ours {
			continue
		}
		for _, other := range groups {
			if other.key.Scheduler == ours || other.key.Mode != mine.key.Mode || other.key.Placement != mine.key.Placement {
				continue
			}
			cells := []string{"ours/" + other.key.Scheduler, mine.key.Mode, mine.key.Placement}
			for _, figure := range figures {
				ratio := mine.median(figure.field) / other.median(figure.field)
				if figure.process && other.key.Scheduler == raw {
					ratio = math.NaN()
				}
				cells = append(cells, number(ratio, 2))
			}
			lines = append(lines, cells)
		}
	}
	if len(lines) == 0 {
		return
	}
	header := []string{"ratio", "mode", "placement"}
	for _, figure := range figures {
		header = append(header, figure.name)
	}
	fmt.Fprintln(w)
	row(w, header...)
	for _, cells := range lines {
		row(w, cells...)
	}
}
