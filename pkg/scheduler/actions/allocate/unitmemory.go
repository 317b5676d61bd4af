// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/memory"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// reuse tells the unit's gangs what they were told in the session before, if that follows from the same.
func (u *unitRun) reuse() bool {
	if u.fingerprint = state.FingerprintOfUnit(u.run, u.gangs, u.pending); u.fingerprint == 0 {
		return false
	}
	found, ok := u.run.Memory.FormerUnits[u.id]
	if !ok || found.Fingerprint != u.fingerprint {
		return false
	}
	u.run.Memory.Units[u.id] = found
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
func (u *unitRun) remember(waits map[api.JobID]framework.Wait, failed *misfit) {
	if u.cut {
		return
	}
	kept := memory.UnitWaits{Fingerprint: u.fingerprint, Waits: waits}
	if failed != nil && failed.explanation != nil {
		kept.Failed, kept.Explained = failed.job.UID, *failed.explanation
	}
	u.run.Memory.Units[u.id] = kept
}
