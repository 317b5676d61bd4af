// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/conf"
)

// PredicateFirst has the plugin's predicate asked before those of all others, wherever the conf has the plugin. Use it from
// OnSessionOpen for what no eviction can help with: upstream asks predicates up to the first that refuses, and preempt and
// reclaim take a node for one they can free when the refusal they are told of is of that kind, whatever a later plugin
// would have said.
func (ssn *Session) PredicateFirst(plugin string) {
	ssn.askFirst(plugin, func(o *conf.PluginOption) **bool { return &o.EnabledPredicate })
}

// EnqueueFirst has the plugin asked before all others whether a gang is let in, wherever the conf has the plugin. Use it from
// OnSessionOpen to keep a gang out: upstream's plugins that count what they let in count it when they are asked, and a plugin of an
// earlier tier that is for it is not asked with those of later ones.
func (ssn *Session) EnqueueFirst(plugin string) {
	ssn.askFirst(plugin, func(o *conf.PluginOption) **bool { return &o.EnabledJobEnqueued })
}

// askFirst moves the extension point that the switch enables before all tiers, if the conf enables it.
func (ssn *Session) askFirst(plugin string, enabled func(*conf.PluginOption) **bool) {
	yes := true
	first := conf.PluginOption{Name: plugin}
	*enabled(&first) = &yes
	tiers, moved := []conf.Tier{{Plugins: []conf.PluginOption{first}}}, false
	for _, tier := range ssn.Tiers {
		tier.Plugins = slices.Clone(tier.Plugins) // the profile's own, which sessions share
		for i := range tier.Plugins {
			option := &tier.Plugins[i]
			if option.Name != plugin {
				continue
			}
			if on := enabled(option); *on != nil && **on {
				*on, moved = nil, true
			}
		}
		tiers = append(tiers, tier)
	}
	if moved {
		ssn.Tiers = tiers
	}
}
