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

// ActionSpec declares the arguments of an action, or of another entry under `configurations`.
type ActionSpec struct {
	Name      string
	Doc       string
	Arguments []framework.Argument
	// Validate checks arguments beyond names and types; nil when there is nothing more to check.
	Validate func(framework.Arguments) error
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
	for _, spec := range upstreamPlugins() {
		c.plugins[spec.Name] = entry{kind: "plugin", PluginSpec: spec, origin: upstream}
	}
	for _, spec := range specs {
		if spec.Extends {
			base := c.plugins[spec.Name]
			spec.Arguments = slices.Concat(base.Arguments, spec.Arguments)
			if own := spec.Validate; own != nil {
				spec.Validate = all(base.Validate, own)
			} else {
				spec.Validate = base.Validate
			}
		}
		c.plugins[spec.Name] = entry{kind: "plugin", PluginSpec: spec}
	}
	for _, spec := range upstreamActions() {
		c.actions[spec.Name] = actionEntry("action", spec, upstream)
	}
	c.blocks[BindingBlock] = actionEntry("configuration", bindingBlock(), ours)
	npu := upstreamInitParams()
	c.blocks[npu.Name] = actionEntry("configuration", npu, upstream)
	c.metrics = actionEntry("block", upstreamMetrics(), upstream)
	return c
}

// configurations returns the entries that a name under `configurations:` may refer to.
func (c *Catalogue) configurations() map[string]entry {
	all := maps.Clone(c.actions)
	maps.Copy(all, c.blocks)
	return all
}

// argument returns the declaration of the argument with this name. A declared name that ends in "*" is a family: it
// matches each longer name that begins with the text before "*".
func (e entry) argument(name string) (framework.Argument, bool) {
	for _, arg := range e.Arguments {
		if arg.Name == name {
			return arg, true
		}
	}
	for _, arg := range e.Arguments {
		prefix, family := strings.CutSuffix(arg.Name, "*")
		if family && strings.HasPrefix(name, prefix) && len(name) > len(prefix) {
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

func names(entries map[string]entry) []string { return slices.Sorted(maps.Keys(entries)) }

func actionEntry(kind string, spec ActionSpec, from origin) entry {
	return entry{kind: kind, origin: from, PluginSpec: framework.PluginSpec{
		Name: spec.Name, Doc: spec.Doc, Arguments: spec.Arguments, Validate: spec.Validate,
	}}
}

func bindingBlock() ActionSpec {
	return ActionSpec{
		Name: BindingBlock,
		Doc:  "Bind transactions.",
		Arguments: []framework.Argument{{
			Name: evictPartiallyBoundAfter, Type: framework.Duration, Default: never, Enum: []string{never},
			Doc: "How long a partially bound gang may wait for its other members before its members are evicted; 1s or more. Gangs are partially bound after a crash, a rejected bind or the loss of a member.",
		}},
		Validate: checks{evictPartiallyBoundAfter: either(period, text(never))}.validate,
	}
}
