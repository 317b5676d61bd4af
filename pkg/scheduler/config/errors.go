// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// Error is one thing wrong in a configuration.
type Error struct {
	// Line is the line of the file, from 1.
	Line int
	// Msg says which name or value is wrong and what would be right. It may repeat whatever is in the file; Error cuts it.
	Msg string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, brief.Text(e.Msg)) }

// FileError is what is wrong with a configuration file. Its text has one line per finding, each with the
// file's path.
type FileError struct {
	Path string
	Err  error
}

// Error implements error.
func (e *FileError) Error() string {
	lines := strings.Split(e.Err.Error(), "\n")
	for i, line := range lines {
		lines[i] = e.Path + ": " + line
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the findings.
func (e *FileError) Unwrap() error { return e.Err }

// maxFindings is how many errors of one file are told. A file of the largest size may have tens of thousands.
const maxFindings = 50

// findings collects the errors of one file.
type findings []*Error

func (f *findings) add(line int, format string, args ...any) {
	*f = append(*f, &Error{Line: max(line, 1), Msg: fmt.Sprintf(format, args...)})
}

// err joins the first findings in the order of their lines; nil when there are none.
func (f findings) err() error {
	sorted := slices.Clone(f)
	slices.SortStableFunc(sorted, func(a, b *Error) int { return cmp.Compare(a.Line, b.Line) })
	if more := len(sorted) - maxFindings; more > 0 {
		next := sorted[maxFindings].Line
		sorted = append(sorted[:maxFindings:maxFindings], &Error{Line: next, Msg: fmt.Sprintf("and %d more errors from here on", more)})
	}
	errs := make([]error, len(sorted))
	for i, e := range sorted {
		errs[i] = e
	}
	return errors.Join(errs...)
}

// argumentError ties a finding of a Validate function to one argument, so that its line can be given.
type argumentError struct {
	name string
	problem
}

func (e *argumentError) Error() string { return e.msg }

// flatten takes joined errors apart.
func flatten(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var errs []error
	for _, e := range joined.Unwrap() {
		errs = append(errs, flatten(e)...)
	}
	return errs
}

// suggest ends a message about an unknown name: with the nearest valid one, or with all when none is near.
func suggest(name string, valid []string) string {
	if len(valid) == 0 {
		return "; none is known"
	}
	if near := nearest(name, valid); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return "; known are " + strings.Join(slices.Sorted(slices.Values(valid)), ", ")
}

// nearest returns the valid name with the fewest edits to name, case aside, or "" when over half of it would change.
func nearest(name string, valid []string) string {
	best, bestDistance := "", 0
	for _, candidate := range slices.Sorted(slices.Values(valid)) {
		d := distance(strings.ToLower(name), strings.ToLower(candidate))
		if d <= max(len(name), len(candidate))/2 && (best == "" || d < bestDistance) {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// distance is the Levenshtein distance in bytes; names longer than any valid one are not measured in full.
func distance(a, b string) int {
	const longest = 100
	a, b = a[:min(len(a), longest)], b[:min(len(b), longest)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
