// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// plan is what the flags ask for.
type plan struct {
	// joint and rows are what to measure.
	joint bool
	rows  []row
	// oursOnly leaves upstream out, which takes most of the time.
	oursOnly bool
	// runs bounds how often each side repeats a row, budget how long it goes on repeating.
	runs   int
	budget time.Duration
	// jsonPath and profileDir are empty for no such output.
	jsonPath   string
	profileDir string
}

// parsePlan reads the command line. Usage and errors are also written to out.
func parsePlan(args []string, out io.Writer) (*plan, error) {
	p := &plan{}
	known := rows()
	names := []string{joint}
	for _, r := range known {
		names = append(names, r.name)
	}
	var chosen string
	fs := flag.NewFlagSet("devices", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.StringVar(&chosen, "rows", strings.Join(names, ","), "what to measure")
	fs.BoolVar(&p.oursOnly, "ours-only", false, "leave upstream out")
	fs.IntVar(&p.runs, "runs", 5, "how often to repeat each row; the median counts")
	fs.DurationVar(&p.budget, "budget", 15*time.Second, "how long to go on repeating a row; each side has one run at least")
	fs.StringVar(&p.jsonPath, "json", "", "also write the results to this file")
	fs.StringVar(&p.profileDir, "profile", "", "write CPU and allocation profiles of each row and side into this directory")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected arguments: %q", fs.Args())
	}
	if p.runs < 1 {
		return nil, fmt.Errorf("--runs must be 1 or more, not %d", p.runs)
	}
	for name := range strings.SplitSeq(chosen, ",") {
		name = strings.TrimSpace(name)
		if name == joint {
			p.joint = true
			continue
		}
		i := slices.IndexFunc(known, func(r row) bool { return r.name == name })
		if i < 0 {
			return nil, fmt.Errorf("--rows: %q is none of %s", name, strings.Join(names, ", "))
		}
		p.rows = append(p.rows, known[i])
	}
	return p, nil
}
