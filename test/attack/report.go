// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

const layout = "%-18s %-26s %8s %7s %7s %7s %13s %12s %13s %7s  %s"

// header names the columns. Delays are in milliseconds, with the largest excess of a kind's median over the
// baseline's in parentheses. API is the median share of the API server in a gang's time, which is not part of the
// delays. WRITES counts the scheduler's writes.
var header = fmt.Sprintf(layout, "ATTACK", "MEDIAN ms "+strings.Join(kinds, "/"), "WORST ms", "API ms", "WIDE ms", "WHOLE", "MEMORY MB", "CORES", "CALLS+REFUSED", "WRITES", "VERDICT")

// line returns the table row of the round.
func (j *judged) line() string {
	medians, worst, more := make([]string, len(kinds)), time.Duration(0), time.Duration(-1<<62)
	for i, kind := range kinds {
		is := median(j.delays[kind])
		medians[i] = fmt.Sprint(is.Milliseconds())
		more = max(more, is-median(j.base.delays[kind]))
		if len(j.delays[kind]) > 0 {
			worst = max(worst, slices.Max(j.delays[kind]))
		}
	}
	verdict := "ok"
	if len(j.faults) > 0 {
		verdict = fmt.Sprintf("FAILED: %.200s", strings.Join(j.faults, "; "))
	}
	beside := func(format string, args ...any) string {
		if j.name == baseline {
			return ""
		}
		return " (" + fmt.Sprintf(format, args...) + ")"
	}
	return fmt.Sprintf(layout, j.name, strings.Join(medians, "/")+beside("%+d", more.Milliseconds()), fmt.Sprint(worst.Milliseconds()),
		fmt.Sprint(median(j.api).Milliseconds()), fmt.Sprint(j.wide.Milliseconds()), fmt.Sprint(j.whole.Milliseconds()),
		fmt.Sprint(j.memory>>20)+beside("%.1fx", float64(j.memory)/float64(max(j.first.memory, 1))),
		fmt.Sprintf("%.2f", j.cores)+beside("%+.2f", j.cores-j.base.cores), fmt.Sprintf("%d+%d", j.done, j.refused), fmt.Sprint(j.writes), verdict)
}

// summary prints the rejected calls and the successful attacks.
func (o *outcome) summary(out io.Writer) {
	fmt.Fprintln(out, "\nfirst refusal of each attack:")
	bad, attacks := 0, 0
	for _, j := range o.rounds {
		if j.refused > 0 {
			fmt.Fprintf(out, "  %-18s %.160s\n", j.name, j.refusal)
		}
		if j.name != baseline {
			attacks++
			if len(j.faults) > 0 {
				bad++
			}
		}
	}
	fmt.Fprintf(out, "\n%d of %d attacks succeeded\n", bad, attacks)
}
