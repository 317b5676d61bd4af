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
	yes := true
	first := conf.Tier{Plugins: []conf.PluginOption{{Name: plugin, EnabledPredicate: &yes}}}
	tiers := []conf.Tier{first}
	for _, tier := range ssn.Tiers {
		tier.Plugins = slices.Clone(tier.Plugins) // the profile's own, which sessions share
		for i, option := range tier.Plugins {
			if option.Name != plugin {
				continue
			}
			if option.EnabledPredicate == nil || !*option.EnabledPredicate {
				return
			}
			tier.Plugins[i].EnabledPredicate = nil
		}
		tiers = append(tiers, tier)
	}
	ssn.Tiers = tiers
}
