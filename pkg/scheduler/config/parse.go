// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	yaml3 "go.yaml.in/yaml/v3"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Parse reads the text of a volcano-scheduler.conf. Text without content selects the built-in configuration. Parse
// reports all errors at once: the returned error joins one *Error per finding, in the order of lines.
//
// Arguments hold the values of upstream's decoder: int, float64, bool, string, []any and map[any]any.
func Parse(data []byte, cat *Catalogue) (*Config, error) {
	root, ok, syntax := document(data)
	if syntax != nil {
		return nil, syntax
	}
	if !ok {
		cfg, err := Parse(cat.builtIn(), cat)
		if err != nil {
			return nil, err
		}
		cfg.Raw, cfg.Hash, cfg.Default = data, hashOf(data), true
		return cfg, nil
	}
	p := &parser{cat: cat, plugins: map[string]namedPlugin{}, cfg: &Config{
		Raw: data, Hash: hashOf(data), PreBindDisabled: map[string]bool{}, Builders: map[string]framework.Builder{},
	}}
	p.root(root)
	p.load(root.value)
	p.checkCombinations()
	if err := p.err(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(p.cfg.Warnings, func(a, b *Error) int { return cmp.Compare(a.Line, b.Line) })
	return p.cfg, nil
}

type parser struct {
	findings
	cat *Catalogue
	// cfg is the configuration as far as the file has been parsed.
	cfg *Config
	// plugins are the plugins named so far, by name.
	plugins map[string]namedPlugin
	// tiersLine is the line of the key "tiers", and metricsLine the line of a non-empty key "metrics". They are 0 if the
	// file lacks the key.
	tiersLine, metricsLine int
}

func (p *parser) warn(line int, format string, args ...any) {
	p.cfg.Warnings = append(p.cfg.Warnings, &Error{Line: max(line, 1), Msg: fmt.Sprintf(format, args...)})
}

var rootKeys = []string{"actions", "tiers", "configurations", "metrics"}

func (p *parser) root(root yamlNode) {
	actions := false
	for _, f := range p.fields(root, "the file") {
		switch f.key {
		case "actions":
			actions = true
			p.parseActions(f)
		case "tiers":
			p.tiersLine = f.keyLine
			for _, tier := range p.list(f.yamlNode, "tiers") {
				p.tier(tier)
			}
		case "configurations":
			p.configurations(f)
		case "metrics":
			p.metrics(f)
		default:
			p.add(f.keyLine, "key %q is unknown%s", f.key, meant(f.key, rootKeys))
		}
	}
	if _, isMapping := root.value.(map[any]any); isMapping && !actions {
		p.add(root.line(), `key "actions" is missing; it names the actions to run, such as "enqueue, allocate, backfill"`)
	}
}

func (p *parser) parseActions(f field) {
	text, ok := f.value.(string)
	if !ok && !f.isNothing() {
		p.add(f.line(), `actions must be a string such as "enqueue, allocate, backfill", found %s`, found(f.value))
		return
	}
	if strings.TrimSpace(text) == "" {
		p.add(f.keyLine, `actions is empty; name the actions to run, such as "enqueue, allocate, backfill"`)
		return
	}
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if name == "" {
			p.add(f.line(), "actions %q has a comma without a name", text)
		} else if _, known := p.cat.actions[name]; !known {
			p.add(f.line(), "action %q is unknown%s", name, meant(name, names(p.cat.actions)))
		} else if slices.Contains(p.cfg.Actions, name) {
			p.warn(f.line(), "action %q is named more than once: it runs that often in each cycle", name)
		}
		p.cfg.Actions = append(p.cfg.Actions, name)
	}
}

var configurationKeys = []string{"name", "arguments"}

func (p *parser) configurations(f field) {
	known := p.cat.configurations()
	lines := map[string]int{}
	for _, item := range p.list(f.yamlNode, "configurations") {
		name, arguments, others := p.entryFields(item, "a configuration")
		for _, g := range others {
			p.add(g.keyLine, "key %q of a configuration is unknown%s", g.key, meant(g.key, configurationKeys))
		}
		text, ok := p.name(item, name, "a configuration")
		if !ok {
			continue
		}
		if first, again := lines[text]; again {
			p.add(name.line(), "configuration %q is given twice; the first is on line %d", text, first)
		} else {
			lines[text] = name.line()
		}
		e, ok := known[text]
		if !ok {
			p.add(name.line(), "configuration %q is unknown%s", text, meant(text, names(known)))
		} else {
			p.arguments(e, arguments, name.line())
		}
	}
}

func (p *parser) metrics(f field) {
	if f.isNothing() {
		return
	}
	p.metricsLine = f.keyLine
	args := framework.Arguments{}
	fields := map[string]field{}
	for _, g := range p.fields(f.yamlNode, "metrics") {
		// Upstream decodes all values under "metrics" as text: `true` and 30 become "true" and "30".
		if _, isText := g.value.(string); !isText && g.node.Kind == yaml3.ScalarNode && !g.isNothing() {
			g.value = g.node.Value
			g.replace(g.value)
		}
		p.argument(p.cat.metrics, &g, args)
		fields[g.key] = g
	}
	p.checkShapes(p.cat.metrics, args, fields)
	kind, given := args["type"].(string)
	if _, written := fields["type"]; !given && !written {
		p.add(f.keyLine, `metrics has no "type"; it must be %s`, oneOf(metricsTypes))
	}
	if address, _ := args["address"].(string); address == "" && (kind == metricsTypes[0] || kind == metricsTypes[1]) {
		p.add(f.keyLine, "metrics of type %q needs an address", kind)
	}
}

// list returns the elements of a list, and reports a value that is no list. A missing value counts as an empty list.
func (p *parser) list(c yamlNode, what string) []yamlNode {
	if c.isNothing() {
		return nil
	}
	items, ok := c.items()
	if !ok {
		p.add(c.line(), "%s must be a list, found %s", what, found(c.value))
	}
	return items
}

// fields returns the keys of a mapping. It reports duplicate keys, and a value that is no mapping. As in upstream's types,
// keys such as 5, yes and null become text, the last one empty.
func (p *parser) fields(c yamlNode, what string) []field {
	keys, twice, ok := c.fields()
	if !ok {
		p.add(c.line(), "%s must be a mapping, found %s", what, found(c.value))
	}
	for _, f := range twice {
		p.add(f.keyLine, "key %q of %s is given twice", f.key, what)
	}
	values, _ := c.value.(map[any]any)
	for i, f := range keys {
		if _, isText := values[f.key]; isText {
			continue
		}
		key := keyOf(f.key)
		keys[i].value = values[key]
		if key == nil {
			keys[i].key = ""
		}
		delete(values, key)
		values[keys[i].key] = keys[i].value
	}
	return keys
}

// entryFields returns the fields "name" and "arguments" of a list's item, and its other fields. Messages call the item
// `what`.
func (p *parser) entryFields(item yamlNode, what string) (name, arguments *field, others []field) {
	for _, f := range p.fields(item, what) {
		switch f.key {
		case "name":
			name = &f
		case "arguments":
			arguments = &f
		default:
			others = append(others, f)
		}
	}
	return name, arguments, others
}

// name returns the value of the field "name" of a list's item, the parameter `of`. Messages call the item `what`. If
// the field is missing or invalid, name reports an error and returns false.
func (p *parser) name(of yamlNode, name *field, what string) (string, bool) {
	if name == nil {
		if of.node.Kind == yaml3.MappingNode {
			p.add(of.line(), `%s has no "name"`, what)
		}
		return "", false
	}
	text, ok := name.value.(string)
	if !ok || text == "" {
		p.add(name.line(), "the name of %s must be a string, found %s", what, found(name.value))
		return "", false
	}
	return text, true
}
