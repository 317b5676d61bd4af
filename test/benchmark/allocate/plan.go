// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"slices"

	"github.com/volcano-prebind/volcano-prebind/test/benchmark/insession"
)

// growth is the name of the part that measures the growth of our action's cost.
const growth = "growth"

// plan is the selection made by the flags.
type plan struct {
	*insession.Plan
	// works and growth select what to measure.
	works  []work
	growth bool
}

// parsePlan reads the command line. Usage and errors are also written to out.
func parsePlan(args []string, out io.Writer) (*plan, error) {
	known := works()
	names := make([]string, 0, len(known)+1)
	for _, w := range known {
		names = append(names, w.name)
	}
	flags, err := insession.ParsePlan("allocate", append(names, growth), args, out)
	if err != nil {
		return nil, err
	}
	p := &plan{Plan: flags}
	for _, name := range flags.Rows {
		if i := slices.Index(names, name); i >= 0 {
			p.works = append(p.works, known[i])
		} else {
			p.growth = true
		}
	}
	return p, nil
}
