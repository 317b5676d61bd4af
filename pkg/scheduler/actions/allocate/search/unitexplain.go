// SPDX-License-Identifier: Apache-2.0

package search

import (
	"fmt"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/memory"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Explain says on each of the unit's gangs why they wait: on the one that found no room by its own explanation, on the others by its
// name.
func (u *Unit) Explain(failed *Misfit, why string) {
	if failed != nil {
		why = fmt.Sprintf("gang %s does not fit with it: %s", failed.job.UID, brief.Part(failed.wait.Message))
	}
	waits := map[api.JobID]framework.Wait{}
	for _, terms := range u.unit.Gangs {
		job, pending := u.run.Session.Jobs[terms.Gang], u.pending[terms.Gang]
		if job == nil || pending == nil && len(pendingBestEffort(job)) == 0 {
			continue
		}
		wait := framework.Wait{Reason: framework.NotEnoughResources, Message: fmt.Sprintf("its group %s is placed together, and %s", brief.Part(u.unit.ID), why)}
		if failed != nil && failed.job == job {
			wait = failed.wait
			if failed.beside > 0 {
				wait.Message = fmt.Sprintf("with %d other gangs of its group placed: %s", failed.beside, wait.Message)
			}
		}
		waits[job.UID] = wait
		u.run.RecordWait(job, wait)
	}
	u.remember(waits, failed)
}

// Reuse tells the unit's gangs what they were told in the session before, if that follows from the same.
func (u *Unit) Reuse() bool {
	if u.fingerprint = state.FingerprintOfUnit(u.run, u.Gangs, u.pending); u.fingerprint == 0 {
		return false
	}
	found, ok := u.run.Memory.FormerUnits[u.unit.ID]
	if !ok || found.Fingerprint != u.fingerprint {
		return false
	}
	u.run.Memory.Units[u.unit.ID] = found
	for uid, wait := range found.Waits {
		u.run.RecordWait(u.run.Session.Jobs[uid], wait)
	}
	if found.Failed != "" {
		found.Explained.Time = u.run.Now()
		u.run.Session.Explain(found.Failed, found.Explained)
	}
	return true
}

// remember keeps what the gangs are told, for the next session.
func (u *Unit) remember(waits map[api.JobID]framework.Wait, failed *Misfit) {
	if u.cut {
		return
	}
	kept := memory.UnitWaits{Fingerprint: u.fingerprint, Waits: waits}
	if failed != nil && failed.explanation != nil {
		kept.Failed, kept.Explained = failed.job.UID, *failed.explanation
	}
	u.run.Memory.Units[u.unit.ID] = kept
}
