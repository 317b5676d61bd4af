// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// UnitFn tells with which gangs the job's is placed and bound together, and on which terms; nil when it is bound by its minimum
// alone. All gangs of a unit must be given the same one.
type UnitFn func(job *api.JobInfo) *binding.Unit

// AddUnitFn adds a plugin's say on units. The first plugin in conf order that returns one decides.
func (ssn *Session) AddUnitFn(fn UnitFn) { ssn.units = append(ssn.units, fn) }

// Unit is what the job's gang is placed and bound with; nil when that is itself, by its minimum alone.
func (ssn *Session) Unit(job *api.JobInfo) *binding.Unit {
	for _, fn := range ssn.units {
		if unit := fn(job); unit != nil {
			return unit
		}
	}
	return nil
}

// Companions are the gangs that the job's is placed together with, itself included, in order of their names; nil when it is
// alone. false when one of them is not in the session.
func (ssn *Session) Companions(job *api.JobInfo) ([]*api.JobInfo, bool) {
	unit := ssn.Unit(job)
	if unit == nil || len(unit.Gangs) < 2 {
		return nil, true
	}
	gangs := make([]*api.JobInfo, len(unit.Gangs))
	for i, terms := range unit.Gangs {
		if gangs[i] = ssn.Jobs[terms.Gang]; gangs[i] == nil {
			return nil, false
		}
	}
	return gangs, true
}
