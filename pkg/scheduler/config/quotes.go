// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	yaml3 "go.yaml.in/yaml/v3"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Upstream's own tools write numbers and flags in quotes, which upstream then ignores, or refuses. If the quoted text is a valid
// value it is accepted, with a warning: the file is parsed again without these quotes, so that plugins and checks see the value
// as if it had been written correctly.

// quoted is a value whose quotes are to be removed.
type quoted struct {
	// begin and end are its place in the text, quotes included.
	begin, end int
	plain      string
}

// unquoted converts a quoted value to the argument's type. It returns false if the value is not text, or not a valid
// value of the type in quotes.
func unquoted(kind framework.ArgumentType, value any) (plain any, ok bool) {
	s, ok := value.(string)
	if !ok {
		return nil, false
	}
	switch kind {
	case framework.Bool:
		switch strings.ToLower(s) {
		case "true":
			return true, true
		case "false":
			return false, true
		}
	case framework.Int, framework.Number:
		if i, err := strconv.Atoi(s); err == nil {
			return i, true
		}
		if f, err := strconv.ParseFloat(s, 64); err == nil && kind == framework.Number && !math.IsInf(f, 0) && !math.IsNaN(f) {
			return f, true
		}
	}
	return nil, false
}

// unquotedFor converts a quoted value to a value that the check accepts.
func unquotedFor(ok check, value any) (plain any, found bool) {
	for _, kind := range []framework.ArgumentType{framework.Bool, framework.Number} {
		if plain, found := unquoted(kind, value); found && ok(plain) == "" {
			return plain, true
		}
	}
	return nil, false
}

// takePlain accepts a quoted value as the value in its quotes, and warns. It returns false if the value is not a plain
// quoted scalar.
func (p *parser) takePlain(c yamlNode, what string, plain any) bool {
	begin, ok := p.offset(c.node)
	if !ok {
		return false
	}
	var quote string
	switch {
	case c.node.Style&yaml3.DoubleQuotedStyle != 0:
		quote = `"`
	case c.node.Style&yaml3.SingleQuotedStyle != 0:
		quote = `'`
	default:
		return false
	}
	literal := quote + c.node.Value + quote
	if !bytes.HasPrefix(p.text[begin:], []byte(literal)) {
		return false
	}
	text := fmt.Sprint(plain)
	if f, isFloat := plain.(float64); isFloat {
		text = strconv.FormatFloat(f, 'g', -1, 64)
	}
	q := quoted{begin: begin, end: begin + len(literal), plain: text}
	if !slices.Contains(p.quoted, q) { // an alias repeats the same value
		p.quoted = append(p.quoted, q)
	}
	p.warn(c.line(), "%s is taken as %s; write it without quotes", what, found(plain))
	return true
}

// takeFields accepts quoted fields in a list of mappings, if their type is declared.
func (p *parser) takeFields(e entry, arg framework.Argument, f field) {
	if len(arg.Fields) == 0 {
		return
	}
	items, _ := f.items()
	for i, item := range items {
		values, _ := item.value.(map[any]any)
		inner, _, _ := item.fields()
		for _, g := range inner {
			plain, ok := unquoted(arg.Fields[g.key], g.value)
			if ok && p.takePlain(g.yamlNode, argumentOf(e, path{arg.Name, i, g.key}.String()), plain) {
				values[g.key] = plain
			}
		}
	}
}

// offset returns the offset of a node in the text; false when its line numbers do not match the text.
func (p *parser) offset(node *yaml3.Node) (int, bool) {
	if p.lines == nil {
		p.lines = bytes.SplitAfter(p.text, []byte("\n"))
		p.begins = make([]int, len(p.lines))
		for i := 1; i < len(p.lines); i++ {
			p.begins[i] = p.begins[i-1] + len(p.lines[i-1])
		}
	}
	if node.Line < 1 || node.Line > len(p.lines) || node.Column < 1 {
		return 0, false
	}
	line, column := p.lines[node.Line-1], 1
	for at := range string(line) { // columns count characters
		if column == node.Column {
			return p.begins[node.Line-1] + at, true
		}
		column++
	}
	return 0, false
}

// withoutQuotes returns the text without the quotes that were found to be wrong.
func (p *parser) withoutQuotes() []byte {
	slices.SortFunc(p.quoted, func(a, b quoted) int { return cmp.Compare(a.begin, b.begin) })
	var out []byte
	last := 0
	for _, q := range p.quoted {
		out = append(append(out, p.text[last:q.begin]...), q.plain...)
		last = q.end
	}
	return append(out, p.text[last:]...)
}

// path leads to a value inside an argument: the argument's name, then keys and indexes.
type path []any

func (p path) to(step any) path { return append(slices.Clip(p), step) }

// String returns the path for messages.
func (p path) String() string {
	var out strings.Builder
	for i, step := range p {
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&out, "[%d]", step)
		default:
			if i > 0 {
				out.WriteByte('.')
			}
			fmt.Fprint(&out, step)
		}
	}
	return out.String()
}

// follow returns the value at the end of the path.
func (c yamlNode) follow(steps path) (yamlNode, bool) {
	for _, step := range steps {
		found := false
		if i, isIndex := step.(int); isIndex {
			if items, ok := c.items(); ok && i < len(items) {
				c, found = items[i], true
			}
		} else if fields, _, ok := c.fields(); ok {
			for _, f := range fields {
				if f.key == step {
					c, found = f.yamlNode, true
				}
			}
		}
		if !found {
			return yamlNode{}, false
		}
	}
	return c, true
}
