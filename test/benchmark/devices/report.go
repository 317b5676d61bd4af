// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/volcano-prebind/volcano-prebind/test/benchmark/insession"
)

// The verdicts on bars.
const (
	met    = "met"
	missed = "MISSED"
)

// report prints the measurements. Its error names the bars that our side missed.
func report(out io.Writer, points []jointPoint, comparisons []comparison) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	var errs []error
	if len(points) > 0 {
		insession.Line(w, joint, "the first request", "one unlike all before", "a node", "its CPU", "bar", "", "once more", "use of devices")
	}
	for _, p := range points {
		bar := ""
		if p.Nodes == jointNodes {
			bar = insession.Seconds(jointLimit.Seconds())
		}
		if p.verdict() == missed {
			errs = append(errs, fmt.Errorf("%s, %s: the bar of %s was missed", joint, p.Use, bar))
		}
		insession.Line(w, fmt.Sprintf("%d nodes", p.Nodes), insession.Seconds(p.FirstSeconds), insession.Seconds(p.Seconds), insession.Seconds(p.Seconds/float64(p.Nodes)),
			insession.Seconds(p.CPUSeconds), bar, p.verdict(), insession.Seconds(p.AgainSeconds), p.Use)
	}
	if len(points) > 0 && len(comparisons) > 0 {
		insession.Line(w)
	}
	if len(comparisons) > 0 {
		insession.Line(w, "action", "upstream", "ours", "ratio", "bar", "", "ours a pod", "CPU", "", "placed", "", "allocations", "", "open session", "")
		insession.Line(w, "", "", "", "", "", "", "", "upstream", "ours", "upstream", "ours", "upstream", "ours", "upstream", "ours")
	}
	for _, c := range comparisons {
		if c.verdict() == missed {
			errs = append(errs, fmt.Errorf("%s: the bar of %s was missed", c.row.name, c.bar()))
		}
		if c.ours.Placed < c.row.work.pods() {
			errs = append(errs, fmt.Errorf("%s: ours placed %d of %d pods", c.row.name, c.ours.Placed, c.row.work.pods()))
		}
		insession.Line(w, c.cells()...)
	}
	return errors.Join(append(errs, w.Flush())...)
}

// verdict returns whether the point reached the bar, or an empty text if it has none. The thread's processor time
// counts, because it does not include waits: on an idle machine it equals the elapsed time.
func (p jointPoint) verdict() string {
	switch {
	case p.Nodes != jointNodes:
		return ""
	case p.CPUSeconds > jointLimit.Seconds():
		return missed
	}
	return met
}

func (c comparison) cells() []string {
	cells := []string{
		c.row.name, "-", insession.Seconds(c.ours.Seconds), "-", c.bar(), c.verdict(), insession.Seconds(c.ours.perPod()),
		"-", insession.Seconds(c.ours.CPUSeconds), "-", fmt.Sprint(c.ours.Placed), "-", insession.Millions(c.ours.Allocations), "-", insession.Seconds(c.ours.OpenSeconds),
	}
	if c.upstream != nil {
		cells[1], cells[3], cells[7] = insession.Seconds(c.upstream.Seconds), fmt.Sprintf("%.0fx", c.ratio()), insession.Seconds(c.upstream.CPUSeconds)
		cells[9], cells[11], cells[13] = fmt.Sprint(c.upstream.Placed), insession.Millions(c.upstream.Allocations), insession.Seconds(c.upstream.OpenSeconds)
	}
	return cells
}

// ratio returns how many times faster our side was.
func (c comparison) ratio() float64 { return c.upstream.Seconds / c.ours.Seconds }

// bar returns the bar for our side.
func (c comparison) bar() string {
	var parts []string
	if c.row.ratio > 0 {
		parts = append(parts, fmt.Sprintf("%.0fx", c.row.ratio))
	}
	if c.row.limit > 0 {
		parts = append(parts, insession.Seconds(c.row.limit.Seconds()))
	}
	return strings.Join(parts, ", ")
}

// verdict returns whether our side reached the bar. It is empty if this cannot be decided without upstream.
func (c comparison) verdict() string {
	switch {
	case c.row.limit > 0 && c.ours.Seconds > c.row.limit.Seconds():
		return missed
	case c.row.ratio == 0:
		return met
	case c.upstream == nil:
		return ""
	case c.ratio() < c.row.ratio:
		return missed
	}
	return met
}
