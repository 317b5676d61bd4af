// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/conf"
)

// WithTiers has the session dispatch to the given tiers only while fn runs. A session dispatches to the tiers it has, so that
// this is the one way to ask a part of upstream's plugins.
func (ssn *Session) WithTiers(tiers []conf.Tier, fn func()) {
	all := ssn.Tiers
	ssn.Tiers = tiers
	defer func() { ssn.Tiers = all }()
	fn()
}

// TiersWithout are the session's tiers without the named plugins.
func (ssn *Session) TiersWithout(plugins ...string) []conf.Tier {
	var out []conf.Tier
	for _, tier := range ssn.Tiers {
		out = append(out, conf.Tier{Plugins: slices.DeleteFunc(slices.Clone(tier.Plugins), func(o conf.PluginOption) bool {
			return slices.Contains(plugins, o.Name)
		})})
	}
	return out
}

// PluginOption returns how the conf has the named plugin; false when it does not.
func (ssn *Session) PluginOption(plugin string) (conf.PluginOption, bool) {
	for _, tier := range ssn.Tiers {
		for _, option := range tier.Plugins {
			if option.Name == plugin {
				return option, true
			}
		}
	}
	return conf.PluginOption{}, false
}

// asksPredicate reports whether the conf has the plugin's predicate asked.
func (ssn *Session) asksPredicate(plugin string) bool {
	return slices.ContainsFunc(ssn.Tiers, func(tier conf.Tier) bool {
		return slices.ContainsFunc(tier.Plugins, func(o conf.PluginOption) bool {
			return o.Name == plugin && o.EnabledPredicate != nil && *o.EnabledPredicate
		})
	})
}
