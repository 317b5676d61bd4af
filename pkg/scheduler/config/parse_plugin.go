// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strings"

	"volcano.sh/volcano/pkg/scheduler/plugins/drf"
	"volcano.sh/volcano/pkg/scheduler/plugins/proportion"

	"github.com/volcano-prebind/volcano-prebind/internal/suggest"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// namedPlugin is a plugin that the file names.
type namedPlugin struct {
	entry entry
	// fields are its arguments in the file, by name, and line is the line of its name.
	fields map[string]field
	line   int
	// loadable reports whether no argument is missing, and the names and types of all are valid.
	loadable bool
}

func (p *parser) tier(tier yamlNode) {
	// hierarchy is the line of enableHierarchy in plugin drf, and share is the line of plugin proportion; 0 if absent.
	// Upstream does not allow both in one tier.
	hierarchy, share := 0, 0
	for _, f := range p.fields(tier, "a tier") {
		if f.key != "plugins" {
			p.add(f.keyLine, "key %q of a tier is unknown%s", f.key, meant(f.key, []string{"plugins"}))
			continue
		}
		for _, item := range p.list(f.yamlNode, "plugins") {
			name, line, hierarchyLine := p.plugin(item)
			switch name {
			case drf.PluginName:
				hierarchy = hierarchyLine
			case proportion.PluginName:
				share = line
			}
		}
	}
	if hierarchy > 0 && share > 0 {
		p.add(hierarchy, "plugin %q with enableHierarchy conflicts with plugin %q (line %d) of the same tier; keep one of them",
			drf.PluginName, proportion.PluginName, share)
	}
}

// plugin checks one plugin of a tier. It returns the name and line of the plugin, and the line of its key
// enableHierarchy if the key is true.
func (p *parser) plugin(item yamlNode) (text string, line, hierarchy int) {
	name, arguments, switches := p.entryFields(item, "a plugin")
	text, ok := p.name(item, name, "a plugin")
	if !ok {
		return "", 0, 0
	}
	line = name.line()
	if first, again := p.plugins[text]; again {
		p.add(line, "plugin %q is named twice; the first is on line %d", text, first.line)
	}
	e, known := p.cat.plugins[text]
	if !known {
		p.add(line, "plugin %q is unknown%s", text, meant(text, names(p.cat.plugins)))
		e = entry{kind: "plugin", PluginSpec: framework.PluginSpec{Name: text}, unknown: true}
	}
	for _, f := range switches {
		if on := p.pluginSwitch(e, f); on && f.key == "enableHierarchy" {
			hierarchy = f.keyLine
		} else if !on && f.key == enablePreBind {
			p.cfg.PreBindDisabled[text] = true
		}
	}
	fields, valid := p.arguments(e, arguments, line)
	p.plugins[text] = namedPlugin{entry: e, fields: fields, line: line, loadable: valid}
	return text, line, hierarchy
}

// pluginSwitch checks one key of a plugin that begins with "enable", and reports whether the switch is on.
func (p *parser) pluginSwitch(e entry, f field) bool {
	var known []string
	for _, s := range pluginSwitches() {
		known = append(known, s.Key)
	}
	if !slices.Contains(known, f.key) {
		hint := meant(f.key, append(known, "name", "arguments"))
		if _, isArgument := e.argument(f.key); isArgument {
			hint = `; it is an argument: write it under "arguments"`
		}
		p.add(f.keyLine, "key %q of plugin %q is unknown%s", f.key, e.Name, hint)
		return false
	}
	if on, ok := f.value.(bool); ok {
		return on
	}
	if plain, ok := unquotedFor(boolean, f.value); ok && p.takePlain(&f.yamlNode, fmt.Sprintf("key %q of plugin %q", f.key, e.Name), plain) {
		return plain == true
	}
	p.add(f.line(), "key %q of plugin %q must be true or false, found %s", f.key, e.Name, found(f.value))
	return false
}

// arguments checks the arguments of a plugin, an action or a block, and returns their fields by name. given is nil if the
// file has none. line is the line of the plugin's, action's or block's name. valid reports whether no argument is missing,
// and the names and types of all are valid.
func (p *parser) arguments(e entry, given *field, line int) (fields map[string]field, valid bool) {
	before := len(p.findings)
	args := framework.Arguments{}
	fields = map[string]field{}
	if given != nil && !given.isNothing() {
		for _, g := range p.fields(given.yamlNode, fmt.Sprintf("the arguments of %s %q", e.kind, e.Name)) {
			p.argument(e, &g, args)
			fields[g.key] = g
		}
	}
	p.required(e, fields, line)
	if valid = len(p.findings) == before; valid {
		p.checkShapes(e, args, fields)
	}
	return fields, valid
}

// required reports an error for each missing argument without which a plugin has no effect.
func (p *parser) required(e entry, given map[string]field, line int) {
	for _, arg := range e.Arguments {
		if _, ok := given[arg.Name]; arg.Required && !ok {
			p.add(line, "%s does nothing without argument %q", e.title(), arg.Name)
		}
	}
}

// argument checks the name and type of one argument and adds it to args if both are valid.
func (p *parser) argument(e entry, f *field, args framework.Arguments) {
	arg, known := e.argument(f.key)
	switch {
	case known:
		ok := typeCheck(arg)
		if plain, quoted := unquoted(arg.Type, f.value); quoted && ok(plain) == "" {
			p.takePlain(&f.yamlNode, argumentOf(e, f.key), plain)
		}
		if want := ok(f.value); want != "" {
			p.add(f.line(), "argument %q of %s must be %s, found %s", f.key, e.title(), want, found(f.value))
			return
		}
		p.takeFields(e, arg, *f)
		args[f.key] = f.value
	case e.unknown: // the unknown plugin or action was already reported
	default:
		p.add(f.keyLine, "argument %q of %s is unknown%s", f.key, e.title(), p.cat.argumentHint(e, f.key))
	}
}

// title returns the kind and name of the entry, for messages.
func (e entry) title() string {
	if e.kind == "block" {
		return e.Name
	}
	return fmt.Sprintf("%s %q", e.kind, e.Name)
}

// argumentHint returns the end of a message about an unknown argument: the nearest valid name, the plugin that has such
// an argument, or all valid names.
func (c *Catalogue) argumentHint(e entry, name string) string {
	candidates := e.candidates(name)
	if near := suggest.Nearest(name, candidates); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	for _, other := range names(c.plugins) {
		if _, ok := c.plugins[other].argument(name); ok {
			return fmt.Sprintf("; it is an argument of plugin %q", other)
		}
	}
	if len(candidates) == 0 {
		return "; it takes none"
	}
	declared := make([]string, len(e.Arguments))
	for i, arg := range e.Arguments {
		declared[i] = arg.Name
	}
	return "; valid names: " + strings.Join(declared, ", ")
}

// argumentOf returns the name of an argument, or of a value inside an argument, for messages.
func argumentOf(e entry, name string) string {
	return fmt.Sprintf("argument %q of %s", name, e.title())
}

// checkShapes checks the values of an entry's arguments one by one.
func (p *parser) checkShapes(e entry, args framework.Arguments, fields map[string]field) {
	for _, name := range names(args) {
		arg, _ := e.argument(name)
		f, check := fields[name], e.shapes[arg.Name]
		if check == nil {
			continue
		}
		for _, wrong := range check(inspection{p, e}, name, &f.yamlNode) {
			p.add(f.keyLine, "%s: %s", e.title(), wrong)
		}
		args[name], fields[name] = f.value, f
	}
}
