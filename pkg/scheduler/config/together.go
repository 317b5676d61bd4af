// SPDX-License-Identifier: Apache-2.0

package config

import (
	"volcano.sh/volcano/pkg/scheduler/plugins/capacity"
	"volcano.sh/volcano/pkg/scheduler/plugins/proportion"
)

// together checks what each part of a file cannot know of the others.
func (p *parser) together() {
	if len(p.findings) == 0 && len(p.pluginLines) == 0 {
		p.add(p.tiersLine, `tiers names no plugin; name those that decide where pods go, such as "gang" and "predicates"`)
	}
	if line := p.pluginLines[usageName]; line > 0 && p.metricsLine == 0 {
		p.add(line, `plugin %q has no effect without the block "metrics", which says where usage is read from`, usageName)
	}
	byWeight, byCapacity := p.pluginLines[proportion.PluginName], p.pluginLines[capacity.PluginName]
	if byWeight > 0 && byCapacity > 0 {
		p.add(max(byWeight, byCapacity), "plugin %q (line %d) conflicts with plugin %q (line %d): each shares the cluster among queues in its own way; keep one of them",
			proportion.PluginName, byWeight, capacity.PluginName, byCapacity)
	}
}
