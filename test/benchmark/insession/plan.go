// SPDX-License-Identifier: Apache-2.0

package insession

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// Plan is the selection made by the flags of a benchmark.
type Plan struct {
	// Rows are the names of the rows to measure, in the requested order.
	Rows []string
	// OursOnly omits upstream, which takes most of the time.
	OursOnly bool
	// Runs is the maximum number of repetitions of a row by each side, and Budget their maximum time.
	Runs   int
	Budget time.Duration
	// JSONPath and ProfileDir are empty if there is no such output.
	JSONPath   string
	ProfileDir string
}

// ParsePlan reads the command line of a benchmark with rows of these names, and selects all rows by default. Usage
// and errors are also written to out.
func ParsePlan(command string, names, args []string, out io.Writer) (*Plan, error) {
	p := &Plan{}
	var chosen string
	fs := flag.NewFlagSet(command, flag.ContinueOnError)
	fs.SetOutput(out)
	fs.StringVar(&chosen, "rows", strings.Join(names, ","), "what to measure")
	fs.BoolVar(&p.OursOnly, "ours-only", false, "leave upstream out, which takes minutes")
	fs.IntVar(&p.Runs, "runs", 5, "how often to repeat each row; the median counts")
	fs.DurationVar(&p.Budget, "budget", 15*time.Second, "how long to go on repeating a row; each side has one run at least")
	fs.StringVar(&p.JSONPath, "json", "", "also write the results to this file")
	fs.StringVar(&p.ProfileDir, "profile", "", "write CPU and allocation profiles of each row and side into this directory")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected arguments: %q", fs.Args())
	}
	if p.Runs < 1 {
		return nil, fmt.Errorf("--runs must be 1 or more, not %d", p.Runs)
	}
	for name := range strings.SplitSeq(chosen, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("--rows: %q is none of %s", name, strings.Join(names, ", "))
		}
		p.Rows = append(p.Rows, name)
	}
	return p, nil
}

// WriteJSON writes the results to the file.
func WriteJSON(path string, results any) error {
	data, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
