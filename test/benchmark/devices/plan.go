// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"slices"

	"github.com/volcano-prebind/volcano-prebind/test/benchmark/insession"
)

// plan is the selection made by the flags.
type plan struct {
	*insession.Plan
	// joint and rows select what to measure.
	joint bool
	rows  []row
}

// parsePlan reads the command line. Usage and errors are also written to out.
func parsePlan(args []string, out io.Writer) (*plan, error) {
	known := rows()
	names := []string{joint}
	for _, r := range known {
		names = append(names, r.name)
	}
	flags, err := insession.ParsePlan("devices", names, args, out)
	if err != nil {
		return nil, err
	}
	p := &plan{Plan: flags}
	for _, name := range flags.Rows {
		if name == joint {
			p.joint = true
		} else {
			p.rows = append(p.rows, known[slices.Index(names, name)-1])
		}
	}
	return p, nil
}
