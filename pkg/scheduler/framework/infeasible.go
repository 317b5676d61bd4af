// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// infeasibilityCheckers lists, in conf order, the plugins that implement InfeasibilityChecker.
func (p *Profile) infeasibilityCheckers() []ofPlugin[InfeasibilityChecker] {
	var out []ofPlugin[InfeasibilityChecker]
	for _, name := range p.pluginOrder {
		if f, ok := p.plugins[name].(InfeasibilityChecker); ok {
			out = append(out, ofPlugin[InfeasibilityChecker]{name, f})
		}
	}
	return out
}

// Infeasible reports whether an InfeasibilityChecker says that the gang never fits.
func (ssn *Session) Infeasible(job *api.JobInfo) bool {
	return slices.ContainsFunc(ssn.infeasibilityCheckers, func(f ofPlugin[InfeasibilityChecker]) (never bool) {
		guarded(f.plugin, func() { never = f.is.Infeasible(ssn, job) })
		return never
	})
}
