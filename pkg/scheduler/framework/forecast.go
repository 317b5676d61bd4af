// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// forecasters lists, in conf order, the plugins that are Forecasters.
func (p *Profile) forecasters() []ofPlugin[Forecaster] {
	var out []ofPlugin[Forecaster]
	for _, name := range p.pluginOrder {
		if f, ok := p.plugins[name].(Forecaster); ok {
			out = append(out, ofPlugin[Forecaster]{name, f})
		}
	}
	return out
}

// NeverFits reports whether a Forecaster says that the gang never fits.
func (ssn *Session) NeverFits(job *api.JobInfo) bool {
	return slices.ContainsFunc(ssn.forecasters, func(f ofPlugin[Forecaster]) (never bool) {
		guarded(f.plugin, func() { never = f.is.NeverFits(ssn, job) })
		return never
	})
}
