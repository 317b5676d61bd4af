// SPDX-License-Identifier: Apache-2.0

package framework

import "slices"

// knownPlugins and knownActions are upstream's plugins and actions that change placed tasks and nodes only by the
// methods of JobInfo and NodeInfo, or by statements. Review the lists when go.mod names another version of upstream.
var (
	knownPlugins = []string{
		"binpack", "capacity", "cdp", "conformance", "drf", "extender", "gang", "network-topology-aware", "nodegroup", "nodeorder", "numa-aware",
		"overcommit", "pdb", "predicates", "priority", "proportion", "rescheduling", "resource-strategy-fit", "resourcequota", "sla",
		"task-topology", "tdm", "usage",
	}
	knownActions = []string{"allocate", "backfill", "enqueue", "preempt", "preempt-upstream", "reclaim", "reclaim-upstream", "shuffle"}
)

// knows reports whether the configuration has only known plugins and actions. They are known if they are in
// knownPlugins or knownActions, or are plugins of this project with PluginSpec.LeavesTasks.
func (r *Registry) knows(in ProfileInput) bool {
	for _, tier := range in.Tiers {
		for _, option := range tier.Plugins {
			if spec, ours := r.specs[option.Name]; ours && !spec.LeavesTasks || !ours && !slices.Contains(knownPlugins, option.Name) {
				return false
			}
		}
	}
	return !slices.ContainsFunc(in.Actions, func(name string) bool { return !slices.Contains(knownActions, name) })
}
