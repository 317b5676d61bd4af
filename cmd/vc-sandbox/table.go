// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// row is a line of the table at the end of the demo.
type row struct {
	what          string
	wanted, bound int
	// where describes the nodes of the bound pods; empty for none.
	where string
	why   string
	took  time.Duration
}

// writeTable writes the rows aligned, with a header.
func writeTable(out io.Writer, rows []row) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "WHAT\tWANTED\tBOUND\tWHERE\tTIME\tOUTCOME")
	for _, r := range rows {
		where := r.where
		if where == "" {
			where = "-"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\n", r.what, r.wanted, r.bound, where, short(r.took), r.why)
	}
	return w.Flush()
}

// short formats a duration with few digits.
func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	default:
		return d.Round(time.Second).String()
	}
}

// count returns the number and the noun, with an s unless the number is 1.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// quote formats a long message, wrapped at width characters and indented.
func quote(text string, width int) string {
	const indent = "      │ "
	var b strings.Builder
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			b.WriteString(indent + line + "\n")
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return b.String() + indent + line + "\n"
}
