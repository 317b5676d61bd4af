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

// noise is the factor above twice the time that still counts as linear when the size doubles, because runs differ by
// that much.
const noise = 1.15

// missed is the verdict on a bar that our action did not reach.
const missed = "MISSED"

// report prints the measurements. Its error names the bars that our action missed.
func report(out io.Writer, comparisons []comparison, all []series) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	if len(comparisons) > 0 {
		printTimes(w, comparisons)
		printCosts(w, comparisons)
		printHops(w, comparisons)
	}
	printGrowth(w, all)
	if err := w.Flush(); err != nil {
		return err
	}
	for _, c := range comparisons {
		if c.upstream != nil && c.upstream.Placed != c.ours.Placed {
			fmt.Fprintf(out, "! %s: of %d pods upstream placed %d, ours %d\n", c.work.name, c.work.shape.pods(), c.upstream.Placed, c.ours.Placed)
		}
	}
	return shortfalls(comparisons, all)
}

// shortfalls returns an error for each missed bar, for fewer placed pods than upstream, and for growth beyond linear.
// It returns nil if there are none.
func shortfalls(comparisons []comparison, all []series) error {
	var errs []error
	for _, c := range comparisons {
		if c.verdict() == missed {
			errs = append(errs, fmt.Errorf("%s: the bar of %s was missed", c.work.name, c.bar()))
		}
		if c.upstream != nil && c.ours.Placed < c.upstream.Placed {
			errs = append(errs, fmt.Errorf("%s: ours placed %d pods, upstream %d", c.work.name, c.ours.Placed, c.upstream.Placed))
		}
	}
	for _, s := range all {
		for i := 1; i < len(s.Points); i++ {
			if !s.linear(i) {
				errs = append(errs, fmt.Errorf("%s: the time grew more than linearly from %d to %d", s.Title, s.Points[i-1].Size, s.Points[i].Size))
			}
		}
	}
	return errors.Join(errs...)
}

func printTimes(w io.Writer, comparisons []comparison) {
	insession.Line(w, "action", "upstream", "ours", "ratio", "bar", "", "placed", "", "open session", "", "close session", "")
	insession.Line(w, "", "", "", "", "", "", "upstream", "ours", "upstream", "ours", "upstream", "ours")
	for _, c := range comparisons {
		cells := []string{c.work.name, "-", insession.Seconds(c.ours.Seconds) + c.ours.then(), "-", c.bar(), c.verdict(),
			"-", fmt.Sprint(c.ours.Placed), "-", insession.Seconds(c.ours.OpenSeconds), "-", insession.Seconds(c.ours.CloseSeconds)}
		if c.upstream != nil {
			cells[1], cells[3] = insession.Seconds(c.upstream.Seconds), fmt.Sprintf("%.0fx", c.ratio())
			cells[6], cells[8], cells[10] = fmt.Sprint(c.upstream.Placed), insession.Seconds(c.upstream.OpenSeconds), insession.Seconds(c.upstream.CloseSeconds)
		}
		insession.Line(w, cells...)
	}
}

// then returns the time of the action in a second session, and that of the whole session, if they were measured.
func (r *result) then() string {
	if r.AgainSeconds == 0 {
		return ""
	}
	return fmt.Sprintf(", then %s of %s", insession.Seconds(r.AgainSeconds), insession.Seconds(r.SessionSeconds))
}

// ratio returns how many times faster our action was.
func (c comparison) ratio() float64 { return c.upstream.Seconds / c.ours.Seconds }

// bar returns the bar for our action.
func (c comparison) bar() string {
	var parts []string
	if c.work.ratio > 0 {
		parts = append(parts, fmt.Sprintf("%.0fx", c.work.ratio))
	}
	if c.work.limit > 0 {
		parts = append(parts, insession.Seconds(c.work.limit.Seconds()))
	}
	if c.work.again > 0 {
		parts = append(parts, "then "+insession.Seconds(c.work.again.Seconds()))
	}
	if c.work.like != "" {
		parts = append(parts, fmt.Sprintf("%gx of %s", likeFactor, c.work.like))
	}
	return strings.Join(parts, ", ")
}

// verdict returns whether our action reached the bar. It is empty if this cannot be decided without upstream, or
// without an earlier measurement of the work in like.
func (c comparison) verdict() string {
	switch {
	case c.work.limit > 0 && c.ours.Seconds > c.work.limit.Seconds():
		return missed
	case c.like != nil && c.ours.Seconds > likeFactor*c.like.Seconds:
		return missed
	case c.work.again > 0 && c.ours.AgainSeconds > c.work.again.Seconds():
		return missed
	case c.upstream == nil && c.work.ratio > 0:
		return ""
	case c.work.ratio > 0 && c.ratio() < c.work.ratio:
		return missed
	case c.like == nil && c.work.like != "":
		return ""
	default:
		return "met"
	}
}

func printCosts(w io.Writer, comparisons []comparison) {
	insession.Line(w)
	insession.Line(w, "", "allocations", "", "allocated", "", "runs", "")
	insession.Line(w, "", "upstream", "ours", "upstream", "ours", "upstream", "ours")
	for _, c := range comparisons {
		cells := []string{c.work.name, "-", insession.Millions(c.ours.Allocations), "-", megabytes(c.ours.Bytes), "-", fmt.Sprint(c.ours.Runs)}
		if c.upstream != nil {
			cells[1], cells[3], cells[5] = insession.Millions(c.upstream.Allocations), megabytes(c.upstream.Bytes), fmt.Sprint(c.upstream.Runs)
		}
		insession.Line(w, cells...)
	}
}

func printHops(w io.Writer, comparisons []comparison) {
	for _, c := range comparisons {
		if c.ours.Hops == nil {
			continue
		}
		theirs := "-"
		if c.upstream != nil && c.upstream.Hops != nil {
			theirs = fmt.Sprintf("%.3f", c.upstream.Hops.Placed)
		}
		insession.Line(w)
		insession.Line(w, "mean hops between neighbours", "upstream", "ours", "random")
		insession.Line(w, c.work.name, theirs, fmt.Sprintf("%.3f", c.ours.Hops.Placed), fmt.Sprintf("%.3f", c.ours.Hops.Random))
	}
}

func printGrowth(w io.Writer, all []series) {
	for _, s := range all {
		insession.Line(w)
		insession.Line(w, "growth of ours: "+s.Title, "time", "of the former", "", "allocated", "placed")
		for i, p := range s.Points {
			factor, verdict := "", ""
			if i > 0 {
				factor, verdict = fmt.Sprintf("%.2f", p.Seconds/s.Points[i-1].Seconds), "linear or better"
				if !s.linear(i) {
					verdict = "MORE THAN LINEAR"
				}
			}
			insession.Line(w, fmt.Sprint(p.Size), insession.Seconds(p.Seconds), factor, verdict, megabytes(p.Bytes), fmt.Sprint(p.Placed))
		}
	}
}

// linear reports whether the time grew no faster than the size, which doubles from point to point.
func (s series) linear(i int) bool { return s.Points[i].Seconds <= 2*noise*s.Points[i-1].Seconds }

func megabytes(n uint64) string { return fmt.Sprintf("%.4g MB", float64(n)/1e6) }
