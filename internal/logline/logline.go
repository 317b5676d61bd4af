// SPDX-License-Identifier: Apache-2.0

// Package logline escapes text that tenants write, such as values of annotations, so that it cannot forge lines of a
// log. Upstream's code logs such text unchanged.
//
// It imports nothing of this project.
package logline

import (
	"fmt"
	"strings"
	"unicode"

	"k8s.io/klog/v2"
)

// Filter escapes control characters in texts, and indents the lines after the first one, so that no such line looks like a
// log entry of its own. It is installed with klog.SetLogFilter.
type Filter struct{}

var _ klog.LogFilter = Filter{}

// Filter is called for klog.Info and similar functions.
func (Filter) Filter(args []any) []any { return cleaned(args) }

// FilterF is called for klog.Infof and similar functions. The format is trusted, because it comes from the program.
func (Filter) FilterF(format string, args []any) (string, []any) { return format, cleaned(args) }

// FilterS is called for structured entries.
func (Filter) FilterS(msg string, keysAndValues []any) (string, []any) {
	return clean(msg), cleaned(keysAndValues)
}

// cleaned returns args if no text or error in them needs escaping, else a copy in which they are escaped.
func cleaned(args []any) []any {
	own := args
	for i, arg := range args {
		var text string
		switch value := arg.(type) {
		case string:
			text = value
		case error:
			text = value.Error()
		default:
			continue
		}
		if safe := clean(text); safe != text {
			if &own[0] == &args[0] {
				own = append([]any(nil), args...)
			}
			own[i] = safe
		}
	}
	return own
}

func clean(text string) string {
	if strings.IndexFunc(text, unicode.IsControl) < 0 {
		return text
	}
	var b strings.Builder
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		if i > 0 {
			b.WriteString("\n\t")
		}
		for _, r := range line {
			if unicode.IsControl(r) && r != '\t' {
				fmt.Fprintf(&b, "\\x%02x", r)
			} else {
				b.WriteRune(r)
			}
		}
	}
	return b.String()
}
