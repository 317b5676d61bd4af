// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	yaml3 "go.yaml.in/yaml/v3"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Upstream's own tools write numbers and flags in quotes, which upstream then ignores, or refuses. If the quoted text is a valid
// value it replaces the text in the decoded file, with a warning, so that plugins and checks see the value as if it had been written
// correctly.

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
func (p *parser) takePlain(c *yamlNode, what string, plain any) bool {
	if _, isText := c.value.(string); !isText || !p.isQuoted(c.node) {
		return false
	}
	c.value = plain
	c.replace(plain)
	p.rewritten = true
	p.warn(c.line(), "%s is taken as %s; write it without quotes", what, found(plain))
	return true
}

// isQuoted reports whether the node stands in the text as its value in quotes, without escapes.
func (p *parser) isQuoted(node *yaml3.Node) bool {
	lines := strings.SplitN(string(p.text), "\n", node.Line+1)
	if node.Style&(yaml3.DoubleQuotedStyle|yaml3.SingleQuotedStyle) == 0 || node.Line > len(lines) {
		return false
	}
	line := []rune(lines[node.Line-1]) // columns count characters
	if node.Column > len(line) {
		return false
	}
	at := string(line[node.Column-1:])
	return strings.HasPrefix(at, `"`+node.Value+`"`) || strings.HasPrefix(at, "'"+node.Value+"'")
}

// takeFields accepts quoted fields in a list of mappings, if their type is declared.
func (p *parser) takeFields(e entry, arg framework.Argument, f field) {
	if len(arg.Fields) == 0 {
		return
	}
	items, _ := f.items()
	for i, item := range items {
		inner, _, _ := item.fields()
		for _, g := range inner {
			if plain, ok := unquoted(arg.Fields[g.key], g.value); ok {
				p.takePlain(&g.yamlNode, argumentOf(e, path{arg.Name, i, g.key}.String()), plain)
			}
		}
	}
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
