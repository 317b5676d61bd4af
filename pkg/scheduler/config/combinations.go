// SPDX-License-Identifier: Apache-2.0

package config

import (
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/plugins/capacity"
	"volcano.sh/volcano/pkg/scheduler/plugins/proportion"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// checkCombinations checks conditions that involve several parts of a file, such as plugins that conflict.
func (p *parser) checkCombinations() {
	if len(p.findings) == 0 && len(p.plugins) == 0 {
		p.add(p.tiersLine, `tiers names no plugin; name the plugins that choose nodes, such as "gang" and "predicates"`)
	}
	if line := p.plugins[usageName].line; line > 0 && p.metricsLine == 0 {
		p.add(line, `plugin %q has no effect without the block "metrics", which says where usage is read from`, usageName)
	}
	byWeight, byCapacity := p.plugins[proportion.PluginName].line, p.plugins[capacity.PluginName].line
	if byWeight > 0 && byCapacity > 0 {
		p.add(max(byWeight, byCapacity), "plugin %q (line %d) conflicts with plugin %q (line %d): each shares the cluster among queues in its own way; keep one of them",
			proportion.PluginName, byWeight, capacity.PluginName, byCapacity)
	}
	for name, plugin := range p.plugins {
		line := plugin.line
		if plugin.entry.Extends && p.cfg.PreBindDisabled[name] {
			p.add(line, "%s: false conflicts with plugin %q, which checks its choice again before the bind; remove it", enablePreBind, name)
		}
		for _, taken := range plugin.entry.TakesOver {
			p.takenOver(name, taken)
			if p.cfg.PreBindDisabled[name] {
				p.add(line, "%s: false conflicts with plugin %q, which takes over the pre-bind steps of plugin %q; remove one of them",
					enablePreBind, name, taken.Plugin)
			}
		}
	}
}

// takenOver reports arguments of the plugin taken.Plugin that conflict with another plugin of the file, whose name is
// `by`. The other plugin provides a feature that taken.Plugin would otherwise provide. So taken.Argument, which
// switches the feature, must have the value taken.Value. Arguments that moved to the other plugin have no effect in
// taken.Plugin.
func (p *parser) takenOver(by string, taken framework.Switch) {
	line := p.plugins[by].line
	for key, f := range p.plugins[taken.Plugin].fields {
		if on, ok := f.value.(bool); ok && key == taken.Argument && on != taken.Value {
			p.add(f.keyLine, "argument %q of plugin %q must be %v with plugin %q (line %d), which takes this over; remove one of them",
				key, taken.Plugin, taken.Value, by, line)
		} else if _, moved := p.plugins[by].entry.argument(key); moved {
			p.add(f.keyLine, "argument %q of plugin %q has no effect with plugin %q (line %d); move it to that plugin",
				key, taken.Plugin, by, line)
		}
	}
}

// takeOver sets arguments of plugin that enable or disable its features. If another plugin in the file provides a
// feature instead, the argument gets the value that the other plugin requires.
func (p *parser) takeOver(plugin *conf.PluginOption) {
	for _, other := range p.plugins {
		for _, taken := range other.entry.TakesOver {
			if taken.Plugin != plugin.Name {
				continue
			}
			if plugin.Arguments == nil {
				plugin.Arguments = map[string]any{}
			}
			plugin.Arguments[taken.Argument] = taken.Value
		}
	}
}
