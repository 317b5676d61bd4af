// SPDX-License-Identifier: Apache-2.0

// Package logline escapes text from tenants, such as values of annotations, before it is logged. So the text cannot
// look like additional log entries. Upstream's code logs such text unchanged.
//
// The package imports no other package of this project.
package logline

import (
	"fmt"
	"strings"
	"unicode"

	"k8s.io/klog/v2"
)

// Filter escapes control characters in texts, and indents all lines but the first, so that no line looks like a
// separate log entry. klog.SetLogFilter installs the filter.
type Filter struct{}

var _ klog.LogFilter = Filter{}

// Filter escapes the arguments of klog.Info and similar functions.
func (Filter) Filter(args []any) []any { return cleaned(args) }

// FilterF escapes the arguments of klog.Infof and similar functions. The format is unchanged, because it comes from the
// program.
func (Filter) FilterF(format string, args []any) (string, []any) { return format, cleaned(args) }

// FilterS escapes the message and values of structured log entries.
func (Filter) FilterS(msg string, keysAndValues []any) (string, []any) {
	return clean(msg), cleaned(keysAndValues)
}

// cleaned returns args if no text or error in args needs escaping. Otherwise it returns a copy with escaped texts.
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
