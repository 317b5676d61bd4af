// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/internal/suggest"
)

// Error is one finding in a configuration file.
type Error struct {
	// Line is the line of the file, from 1.
	Line int
	// Msg says which name or value is wrong and what is valid. It may quote anything in the file; Error shortens it.
	Msg string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, brief.Text(e.Msg)) }

// FileError holds the findings in a configuration file. Its text has one line for each finding, with the file's path.
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

// maxFindings limits how many errors of one file are reported. A file of the maximum size may have tens of thousands of
// errors.
const maxFindings = 50

// findings collects the errors of one file.
type findings []*Error

func (f *findings) add(line int, format string, args ...any) {
	*f = append(*f, &Error{Line: max(line, 1), Msg: fmt.Sprintf(format, args...)})
}

// err joins the findings in the order of their lines, at most maxFindings; nil if there are none.
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

// argumentError is an error in one argument, found by a check of several arguments. The parser reports it with the line
// of that argument.
type argumentError struct{ name, msg string }

func (e *argumentError) Error() string { return e.msg }

func argumentErrorf(name, format string, args ...any) error {
	return &argumentError{name, fmt.Sprintf(format, args...)}
}

// flatten returns the individual errors of joined errors; none for nil.
func flatten(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
		return nil
	case !ok:
		return []error{err}
	}
	var errs []error
	for _, e := range joined.Unwrap() {
		errs = append(errs, flatten(e)...)
	}
	return errs
}

// meant returns the end of a message about an unknown name: the nearest valid name, or all valid names if none is near.
func meant(name string, valid []string) string {
	if len(valid) == 0 {
		return "; none is known"
	}
	if near := suggest.Nearest(name, valid); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return "; valid names: " + strings.Join(slices.Sorted(slices.Values(valid)), ", ")
}
