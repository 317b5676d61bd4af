// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// published are the paper's means of 10 runs for the default workload of its trace.
var published = []struct {
	policy string
	figures
}{
	{"random", figures{85.02, 85.72, 86.30, 87.47}},
	{"dot product", figures{89.98, 90.58, 90.62, 90.85}},
	{"GPU clustering", figures{89.98, 91.61, 91.65, 91.88}},
	{"GPU packing", figures{89.98, 91.74, 91.78, 92.00}},
	{"best fit", figures{89.99, 92.82, 92.86, 93.08}},
	{"fragmentation gradient descent", figures{89.98, 94.91, 95.23, 95.39}},
}

// outcome has the figures of a strategy, by seed.
type outcome struct {
	strategy string
	runs     []figures
	took     time.Duration
}

// report prints the outcomes as a table. With beside, it also prints the published figures.
func report(out io.Writer, outcomes []outcome, beside bool) {
	fmt.Fprintln(out, "Allocated GPUs, in percent of the cluster's, when tasks that ask for so much have arrived:")
	fmt.Fprintln(out)
	fmt.Fprintln(out, "| strategy | 90% | 95% | 100% | 130% | a run | at 100%, by seed |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|")
	if beside {
		for _, p := range published {
			fmt.Fprintf(out, "| %s (published) | %s | | |\n", p.policy, p.figures)
		}
	}
	for _, o := range outcomes {
		var bySeed []string
		for _, run := range o.runs {
			bySeed = append(bySeed, fmt.Sprintf("%.2f", run[atFull]))
		}
		fmt.Fprintf(out, "| %s | %s | %.0f s | %s |\n", o.strategy, mean(o.runs), o.took.Seconds()/float64(len(o.runs)), strings.Join(bySeed, " "))
	}
}

// String returns the figures as cells of a table.
func (f figures) String() string {
	cells := make([]string, len(f))
	for i, figure := range f {
		cells[i] = fmt.Sprintf("%.2f", figure)
	}
	return strings.Join(cells, " | ")
}
