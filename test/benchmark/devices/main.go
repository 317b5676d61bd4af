// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
	"github.com/volcano-prebind/volcano-prebind/test/benchmark/insession"
)

func main() {
	err := compare(os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// comparison has the results of both sides for a row. upstream is nil if it was left out.
type comparison struct {
	row            row
	upstream, ours *result
}

// compare runs the measurements that the arguments select, and prints the results.
func compare(args []string, out, progress io.Writer) error {
	p, err := parsePlan(args, progress)
	if err != nil {
		return err
	}
	// Log lines about single tasks would be part of the measurement.
	klog.SetLogger(klog.Logger{})
	api.IgnoredDevicesList.Append(allocator.UncountedNames()...) // as a scheduler does before it reads any pod
	upstream, ours := insession.NewSides()
	var points []jointPoint
	if p.joint {
		if points, err = p.measureJoint(ours, progress); err != nil {
			return err
		}
	}
	var comparisons []comparison
	for _, r := range p.rows {
		c := comparison{row: r}
		if r.ratio > 0 && !p.OursOnly {
			if c.upstream, err = p.measure(upstream, r, progress); err != nil {
				return err
			}
		}
		if c.ours, err = p.measure(ours, r, progress); err != nil {
			return err
		}
		comparisons = append(comparisons, c)
	}
	if p.JSONPath != "" {
		if err := writeJSON(p.JSONPath, points, comparisons); err != nil {
			return err
		}
	}
	return report(out, points, comparisons)
}

func writeJSON(path string, points []jointPoint, comparisons []comparison) error {
	type line struct {
		Name     string  `json:"name"`
		Title    string  `json:"title"`
		Bar      float64 `json:"leastRatio,omitempty"`
		Upstream *result `json:"upstream,omitempty"`
		Ours     *result `json:"ours"`
	}
	lines := make([]line, len(comparisons))
	for i, c := range comparisons {
		lines[i] = line{c.row.name, c.row.title, c.row.ratio, c.upstream, c.ours}
	}
	return insession.WriteJSON(path, struct {
		Joint []jointPoint `json:"joint,omitempty"`
		Rows  []line       `json:"rows,omitempty"`
	}{points, lines})
}
