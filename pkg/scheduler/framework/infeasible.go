// SPDX-License-Identifier: Apache-2.0

package framework

import "volcano.sh/volcano/pkg/scheduler/api"

// infeasibilityCheckers lists, in conf order, the plugins that implement InfeasibilityChecker.
func (p *Profile) infeasibilityCheckers() []InfeasibilityChecker {
	var out []InfeasibilityChecker
	for _, name := range p.pluginOrder {
		if f, ok := p.plugins[name].(InfeasibilityChecker); ok {
			out = append(out, f)
		}
	}
	return out
}

// Infeasible reports whether an InfeasibilityChecker says that the gang never fits.
func (ssn *Session) Infeasible(job *api.JobInfo) bool {
	for _, f := range ssn.infeasibilityCheckers {
		if f.Infeasible(ssn, job) {
			return true
		}
	}
	return false
}
