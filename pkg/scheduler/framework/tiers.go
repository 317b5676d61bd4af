// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/conf"
)

// WithTiers restricts the session to the given tiers while fn runs. Upstream's session calls the plugins of its tiers,
// so this is the only way to call only some plugins.
func (ssn *Session) WithTiers(tiers []conf.Tier, fn func()) {
	all := ssn.Tiers
	ssn.Tiers = tiers
	defer func() { ssn.Tiers = all }()
	fn()
}

// TiersWithout returns the tiers without the named plugins of upstream.
func (v *Signers) TiersWithout(tiers []conf.Tier, plugins ...string) []conf.Tier {
	var out []conf.Tier
	for _, tier := range tiers {
		out = append(out, conf.Tier{Plugins: slices.DeleteFunc(slices.Clone(tier.Plugins), func(o conf.PluginOption) bool {
			return v.IsUpstreams(o.Name) && slices.Contains(plugins, o.Name)
		})})
	}
	return out
}

// TaskOrderTiers returns the tiers without those upstream plugins that do not order tasks, or order them only by
// priority.
func (v *Signers) TaskOrderTiers(tiers []conf.Tier) []conf.Tier {
	var not []string
	for name, inputs := range upstreamSignatures {
		if !inputs.ordersTasks {
			not = append(not, name)
		}
	}
	return v.TiersWithout(tiers, not...)
}

// JobOrderPlugins returns the options of the plugins that may order jobs, in the order of the tiers.
func (v *Signers) JobOrderPlugins(tiers []conf.Tier) []conf.PluginOption {
	var out []conf.PluginOption
	for _, tier := range tiers {
		for _, option := range tier.Plugins {
			enabled := option.EnabledJobOrder != nil && *option.EnabledJobOrder
			if enabled && v.ordersJobs(option.Name) {
				out = append(out, option)
			}
		}
	}
	return out
}

func (v *Signers) ordersJobs(plugin string) bool {
	inputs, listed := upstreamSignatures[plugin]
	if signer, ours := v.ours[plugin]; ours {
		return signer == nil || v.added[plugin].jobOrder
	}
	return !listed || inputs.ordersJobs
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
