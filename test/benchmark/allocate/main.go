// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
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

// comparison has the results of both sides for a work. upstream is nil if it was left out.
type comparison struct {
	work     work
	upstream *result
	ours     *result
	// like is our result for the work with which this one is compared, or nil if that was not measured.
	like *result
}

// compare runs the measurements that the arguments select, and prints the results.
func compare(args []string, out, progress io.Writer) error {
	p, err := parsePlan(args, progress)
	if err != nil {
		return err
	}
	// Log lines about single tasks would be part of the measurement.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	upstream, ours := newSides()
	b := &bench{plan: p, cluster: sessiontest.New(sessiontest.ClusterSpec{})}
	defer b.cluster.Close()
	var comparisons []comparison
	for _, w := range p.works {
		c := comparison{work: w}
		if !p.OursOnly {
			if c.upstream, err = b.measureAndReport(progress, upstream, w.name, w.shape); err != nil {
				return err
			}
		}
		if c.ours, err = b.measureAndReport(progress, ours, w.name, w.shape); err != nil {
			return err
		}
		if i := slices.IndexFunc(comparisons, func(former comparison) bool { return former.work.name == w.like }); i >= 0 {
			c.like = comparisons[i].ours
		}
		comparisons = append(comparisons, c)
	}
	var all []series
	if p.growth {
		if all, err = b.measureGrowth(ours, progress); err != nil {
			return err
		}
	}
	if p.JSONPath != "" {
		if err := writeJSON(p.JSONPath, comparisons, all); err != nil {
			return err
		}
	}
	return report(out, comparisons, all)
}

// measureAndReport measures the work on one side, and writes the progress.
func (b *bench) measureAndReport(progress io.Writer, s *side, name string, sh shape) (*result, error) {
	began := time.Now()
	fmt.Fprintf(progress, "%s %s: ", s.Name, name)
	r, err := b.measure(s, name, sh)
	if err != nil {
		fmt.Fprintln(progress, "failed")
		return nil, err
	}
	fmt.Fprintf(progress, "%s (%d of %d pods placed; runs: %d; in all %.0f s)\n",
		insession.Seconds(r.Seconds), r.Placed, sh.pods(), r.Runs, time.Since(began).Seconds())
	return &r, nil
}

func writeJSON(path string, comparisons []comparison, all []series) error {
	type row struct {
		Name     string  `json:"name"`
		Title    string  `json:"title"`
		Bar      float64 `json:"leastRatio"`
		Upstream *result `json:"upstream,omitempty"`
		Ours     *result `json:"ours,omitempty"`
	}
	rows := make([]row, len(comparisons))
	for i, c := range comparisons {
		rows[i] = row{c.work.name, c.work.title, c.work.ratio, c.upstream, c.ours}
	}
	return insession.WriteJSON(path, struct {
		Rows   []row    `json:"rows,omitempty"`
		Growth []series `json:"growth,omitempty"`
	}{rows, all})
}
