// SPDX-License-Identifier: Apache-2.0

package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// BindingBlock is the name of the entry under `configurations` that has the arguments of bind transactions.
const BindingBlock = "binding"

const (
	evictPartiallyBoundAfter = "evictPartiallyBoundAfter"
	never                    = "never"
)

// declaration declares a plugin of upstream, an action, or another entry under `configurations`.
type declaration struct {
	Name, Doc string
	Arguments []argument
	// validate checks conditions that involve several arguments; nil if none exist.
	validate func(framework.Arguments) error
}

// argument is an argument and the shape of its values beyond the type; nil if every value of the type is valid.
type argument struct {
	framework.Argument
	shape shape
}

func arg(name string, kind framework.ArgumentType, def, doc string, shape shape) argument {
	return argument{framework.Argument{Name: name, Type: kind, Default: def, Doc: doc}, shape}
}

// Catalogue lists the plugins, actions, blocks and arguments that a configuration may name. It is filled at start and
// read-only afterwards.
type Catalogue struct {
	plugins map[string]entry
	actions map[string]entry
	// blocks are the entries under `configurations` that belong to no action.
	blocks  map[string]entry
	metrics entry
}

// entry is a plugin, an action or a block, with the arguments that it takes.
type entry struct {
	kind string
	framework.PluginSpec
	origin origin
	// shapes are the shapes of arguments, by name in the declaration.
	shapes map[string]shape
	// validate checks the arguments of a plugin of upstream before Load does; nil if nothing more needs to be checked.
	validate func(framework.Arguments) error
	// unknown reports whether the entry stands for a plugin or action that does not exist. Its arguments cannot be
	// checked.
	unknown bool
}

// origin is where an entry comes from: this project, or upstream.
type origin int

const (
	ours origin = iota
	upstream
)

// NewCatalogue returns a catalogue of all of upstream's plugins and actions, and of the given plugins. A given plugin
// replaces or extends upstream's plugin of the same name.
func NewCatalogue(specs ...framework.PluginSpec) *Catalogue {
	c := &Catalogue{plugins: map[string]entry{}, actions: map[string]entry{}, blocks: map[string]entry{}}
	for _, d := range upstreamPlugins() {
		c.plugins[d.Name] = d.entry("plugin", upstream)
	}
	for _, spec := range specs {
		e := entry{kind: "plugin", PluginSpec: spec}
		if base := c.plugins[spec.Name]; spec.Extends {
			e.shapes, e.Arguments, e.validate = base.shapes, slices.Concat(base.Arguments, spec.Arguments), base.validate
		}
		c.plugins[spec.Name] = e
	}
	for _, d := range upstreamActions() {
		c.actions[d.Name] = d.entry("action", upstream)
	}
	c.blocks[BindingBlock] = bindingBlock().entry("configuration", ours)
	c.blocks[initParams] = upstreamInitParams().entry("configuration", upstream)
	c.metrics = upstreamMetrics().entry("block", upstream)
	return c
}

// configurations returns the entries that a name under `configurations:` may refer to.
func (c *Catalogue) configurations() map[string]entry {
	all := maps.Clone(c.actions)
	maps.Copy(all, c.blocks)
	return all
}

// argument returns the declaration of the argument with this name. A declared name that ends in "*" is a family: it
// matches each longer name that begins with the text before "*", and "*" alone matches every name.
func (e entry) argument(name string) (framework.Argument, bool) {
	for _, arg := range e.Arguments {
		if arg.Name == name {
			return arg, true
		}
	}
	for _, arg := range e.Arguments {
		prefix, family := strings.CutSuffix(arg.Name, "*")
		if family && strings.HasPrefix(name, prefix) && (len(name) > len(prefix) || prefix == "") {
			return arg, true
		}
	}
	return framework.Argument{}, false
}

// candidates returns the valid argument names that a user may have meant by the invalid name. For a family of
// arguments, such as "weight.*", the candidate is its prefix followed by the end of the invalid name.
func (e entry) candidates(name string) []string {
	var out []string
	for _, arg := range e.Arguments {
		prefix, family := strings.CutSuffix(arg.Name, "*")
		if family && len(name) > len(prefix) {
			out = append(out, prefix+name[len(prefix):])
		} else {
			out = append(out, arg.Name)
		}
	}
	return out
}

func names[V any](byName map[string]V) []string { return slices.Sorted(maps.Keys(byName)) }

func (d declaration) entry(kind string, from origin) entry {
	e := entry{kind: kind, origin: from, shapes: map[string]shape{}, validate: d.validate, PluginSpec: framework.PluginSpec{Name: d.Name, Doc: d.Doc}}
	for _, arg := range d.Arguments {
		e.Arguments, e.shapes[arg.Name] = append(e.Arguments, arg.Argument), arg.shape
	}
	return e
}

func bindingBlock() declaration {
	return declaration{
		Name: BindingBlock,
		Doc:  "Bind transactions.",
		Arguments: []argument{{framework.Argument{
			Name: evictPartiallyBoundAfter, Type: framework.Duration, Default: never, Enum: []string{never},
			Doc: "How long a partially bound gang may wait for its other members before its members are evicted; 1s or more. Gangs are partially bound after a crash, a rejected bind or the loss of a member.",
		}, is(either(period, text(never)))}},
	}
}
