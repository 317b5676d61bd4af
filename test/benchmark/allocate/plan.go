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

// growth is the name of the part that measures how the cost of ours grows.
const growth = "growth"

// plan is what the flags ask for.
type plan struct {
	// works and growth are what to measure.
	works  []work
	growth bool
	// oursOnly leaves upstream out, which takes most of the time.
	oursOnly bool
	// runs bounds how often each side repeats a work, budget how long it goes on repeating.
	runs   int
	budget time.Duration
	// jsonPath and profileDir are empty for no such output.
	jsonPath   string
	profileDir string
}

// parsePlan reads the command line. Usage and errors are also written to out.
func parsePlan(args []string, out io.Writer) (*plan, error) {
	p := &plan{}
	known := works()
	names := make([]string, 0, len(known)+1)
	for _, w := range known {
		names = append(names, w.name)
	}
	names = append(names, growth)
	var chosen string
	fs := flag.NewFlagSet("allocate", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.StringVar(&chosen, "rows", strings.Join(names, ","), "what to measure")
	fs.BoolVar(&p.oursOnly, "ours-only", false, "leave upstream out, which takes minutes")
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
		if name == growth {
			p.growth = true
			continue
		}
		i := slices.IndexFunc(known, func(w work) bool { return w.name == name })
		if i < 0 {
			return nil, fmt.Errorf("--rows: %q is none of %s", name, strings.Join(names, ", "))
		}
		p.works = append(p.works, known[i])
	}
	return p, nil
}
