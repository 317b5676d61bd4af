// SPDX-License-Identifier: Apache-2.0

package insession

import (
	"fmt"
	"io"
	"strings"
)

// Line writes the cells of a line, each terminated for tabwriter.
func Line(w io.Writer, cells ...string) { fmt.Fprintln(w, strings.Join(cells, "\t")+"\t") }

// Seconds formats a time with three digits.
func Seconds(s float64) string {
	switch {
	case s < 0.001:
		return fmt.Sprintf("%.3g us", s*1e6)
	case s < 1:
		return fmt.Sprintf("%.3g ms", s*1e3)
	default:
		return fmt.Sprintf("%.3g s", s)
	}
}

// Millions formats a count in millions.
func Millions(n uint64) string { return fmt.Sprintf("%.3g M", float64(n)/1e6) }
