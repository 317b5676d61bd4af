// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/conf"
)

// WithTiers restricts the session to the given tiers while fn runs. Upstream's session calls the plugins of its tiers,
// so this is the only way to call only some of its plugins.
func (ssn *Session) WithTiers(tiers []conf.Tier, fn func()) {
	all := ssn.Tiers
	ssn.Tiers = tiers
	defer func() { ssn.Tiers = all }()
	fn()
}

// TiersWithout returns the session's tiers without the named plugins.
func (ssn *Session) TiersWithout(plugins ...string) []conf.Tier {
	var out []conf.Tier
	for _, tier := range ssn.Tiers {
		out = append(out, conf.Tier{Plugins: slices.DeleteFunc(slices.Clone(tier.Plugins), func(o conf.PluginOption) bool {
			return slices.Contains(plugins, o.Name)
		})})
	}
	return out
}

// TaskOrderTiers returns the session's tiers without those upstream plugins that do not order tasks, or order them only by
// priority.
func (ssn *Session) TaskOrderTiers() []conf.Tier {
	var not []string
	for name, inputs := range upstreamInputs {
		if _, ours := ssn.Verdicts.ours[name]; !ours && !inputs.ordersTasks {
			not = append(not, name)
		}
	}
	return ssn.TiersWithout(not...)
}

// PluginOption returns the conf's options for the named plugin; false when the conf does not name it.
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
