// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	yaml3 "go.yaml.in/yaml/v3"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Upstream's own tools write numbers and booleans in quotes, which upstream then ignores or rejects. If the quoted text
// is a valid value, the value replaces the text in the decoded file, with a warning. Plugins and checks then see the
// value as if it had been written without quotes.

// unquoted converts a quoted value to the type of an argument. It returns false if the value is not text, or if the
// text is not a valid value of that type.
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

// unquotedFor converts a quoted value to a boolean or number that the check accepts. It returns false if the check
// accepts neither.
func unquotedFor(ok check, value any) (plain any, found bool) {
	for _, kind := range []framework.ArgumentType{framework.Bool, framework.Number} {
		if plain, found := unquoted(kind, value); found && ok(plain) == "" {
			return plain, true
		}
	}
	return nil, false
}

// takePlain replaces a quoted value in the decoded file by plain, the value without its quotes, and adds a warning. It
// returns false if the value is not written as a simple text in quotes.
func (p *parser) takePlain(c *yamlNode, what string, plain any) bool {
	if _, isText := c.value.(string); !isText || !p.isQuoted(c.node) {
		return false
	}
	c.value = plain
	c.replace(plain)
	p.warn(c.line(), "%s is taken as %s; write it without quotes", what, found(plain))
	return true
}

// isQuoted reports whether the file has the value of the node in quotes, without escape sequences.
func (p *parser) isQuoted(node *yaml3.Node) bool {
	lines := strings.SplitN(string(p.cfg.Raw), "\n", node.Line+1)
	if node.Style&(yaml3.DoubleQuotedStyle|yaml3.SingleQuotedStyle) == 0 || node.Line > len(lines) {
		return false
	}
	line := []rune(lines[node.Line-1]) // node.Column counts characters, not bytes
	if node.Column > len(line) {
		return false
	}
	at := string(line[node.Column-1:])
	return strings.HasPrefix(at, `"`+node.Value+`"`) || strings.HasPrefix(at, "'"+node.Value+"'")
}

// takeFields replaces quoted values in an argument that is a list of mappings, if the types of its fields are declared.
func (p *parser) takeFields(e entry, arg framework.Argument, f field) {
	if len(arg.Fields) == 0 {
		return
	}
	items, _ := f.items()
	for i, item := range items {
		inner, _, _ := item.fields()
		for _, g := range inner {
			if plain, ok := unquoted(arg.Fields[g.key], g.value); ok {
				p.takePlain(&g.yamlNode, argumentOf(e, fmt.Sprintf("%s[%d].%s", arg.Name, i, g.key)), plain)
			}
		}
	}
}
