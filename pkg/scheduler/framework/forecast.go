// SPDX-License-Identifier: Apache-2.0

package framework

import "volcano.sh/volcano/pkg/scheduler/api"

// Forecaster is a plugin that knows of gangs for which its nodes could never do, whatever is released.
type Forecaster interface {
	// NeverFits is true if the gang, which was let in, can have nothing placed as the cluster's nodes are: what is promised to it
	// would only keep others out. It is asked before upstream's plugins open, the forecaster's own OnSessionOpen maybe among them.
	NeverFits(ssn *Session, job *api.JobInfo) bool
}

// forecasters lists, in conf order, the plugins that are.
func (p *Profile) forecasters() []Forecaster {
	var out []Forecaster
	for _, name := range p.pluginOrder {
		if f, ok := p.plugins[name].(Forecaster); ok {
			out = append(out, f)
		}
	}
	return out
}

// NeverFits is true if a plugin says so of the gang.
func (ssn *Session) NeverFits(job *api.JobInfo) bool {
	for _, f := range ssn.forecasters {
		if f.NeverFits(ssn, job) {
			return true
		}
	}
	return false
}
