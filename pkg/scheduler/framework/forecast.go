// SPDX-License-Identifier: Apache-2.0

package framework

import "volcano.sh/volcano/pkg/scheduler/api"

// forecasters lists, in conf order, the plugins that are Forecasters.
func (p *Profile) forecasters() []Forecaster {
	var out []Forecaster
	for _, name := range p.pluginOrder {
		if f, ok := p.plugins[name].(Forecaster); ok {
			out = append(out, f)
		}
	}
	return out
}

// NeverFits reports whether a Forecaster says that the gang never fits.
func (ssn *Session) NeverFits(job *api.JobInfo) bool {
	for _, f := range ssn.forecasters {
		if f.NeverFits(ssn, job) {
			return true
		}
	}
	return false
}
