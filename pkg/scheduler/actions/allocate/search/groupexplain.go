// SPDX-License-Identifier: Apache-2.0

package search

import (
	"fmt"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/crosssession"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/explain"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Explain records why each gang of the gang group waits after a search. failed is the gang that found no room. It gets
// its own explanation, and the reasons of the other gangs name it. If failed is nil, arithmetic has excluded the group.
func (u *GroupSearch) Explain(failed *UnplacedGang) {
	why := u.lacking
	if failed != nil {
		why = fmt.Sprintf("gang %s does not fit: %s", failed.job.UID, brief.Part(failed.reason.Message))
	}
	u.remember(u.setReasons(failed, why), failed)
}

// ExplainBlocked records for each gang of the gang group that the group is not tried in this session, because of the
// named gang.
func (u *GroupSearch) ExplainBlocked(gang api.JobID, reason string) {
	u.setReasons(nil, fmt.Sprintf("gang %s %s", gang, reason))
}

// setReasons records why each gang of the gang group waits, and returns the reasons. why is the reason of all gangs but
// failed.
func (u *GroupSearch) setReasons(failed *UnplacedGang, why string) map[api.JobID]framework.PendingReason {
	reasons := map[api.JobID]framework.PendingReason{}
	for _, terms := range u.gangGroup.Gangs {
		job, pending := u.run.Session.Jobs[terms.Gang], u.pending[terms.Gang]
		if job == nil || pending == nil && len(pendingBestEffort(job)) == 0 {
			continue
		}
		reason := framework.PendingReason{Reason: framework.NotEnoughResources, Message: fmt.Sprintf("gang group %s must be scheduled together; %s", brief.Part(u.gangGroup.ID), why)}
		if failed != nil && failed.job == job {
			reason = failed.reason
			if failed.beside > 0 {
				reason.Message = fmt.Sprintf("does not fit beside %s of its group: %s", brief.Count(failed.beside, "placed gang"), reason.Message)
			}
		}
		reasons[job.UID] = reason
		u.run.SetPendingReason(job, reason)
	}
	return reasons
}

// Reuse records the last session's explanations for the gang group's gangs again, if nothing that they depend on has
// changed. It returns false if no valid explanations exist.
func (u *GroupSearch) Reuse() bool {
	if u.fingerprint = state.FingerprintOfGangGroup(u.run, u.Gangs, u.pending); u.fingerprint == 0 {
		return false
	}
	found, ok := u.run.CrossSession.FormerGangGroups[u.gangGroup.ID]
	if !ok || found.Fingerprint != u.fingerprint {
		return false
	}
	found.Explained.Time = u.run.Now()
	u.repeat(found)
	return true
}

// Repeat records why the gangs of the gang group waited when the group was last tried. The group is not tried in this
// session, because failed attempts for other gangs of its namespace have used up the namespace's time (crosssession.Turns).
func (u *GroupSearch) Repeat() {
	found, ok := u.run.CrossSession.FormerGangGroups[u.gangGroup.ID]
	if ok && !slices.ContainsFunc(u.Gangs, func(job *api.JobInfo) bool { return found.Reasons[job.UID].Reason == "" }) {
		u.repeat(found)
		return
	}
	for _, job := range u.Gangs {
		u.run.SetPendingReason(job, explain.NotTried(u.Gangs[0].Namespace))
	}
}

// repeat records the explanations of an earlier attempt for the gang group's gangs, and keeps them for the next session.
func (u *GroupSearch) repeat(found crosssession.GangGroupReasons) {
	u.run.CrossSession.GangGroups[u.gangGroup.ID] = found
	for uid, reason := range found.Reasons {
		if job := u.run.Session.Jobs[uid]; job != nil {
			u.run.SetPendingReason(job, reason)
		}
	}
	if u.run.Session.Jobs[found.Failed] != nil {
		u.run.Session.Explain(found.Failed, found.Explained)
	}
}

// remember keeps, for the next session, why each gang of the gang group waits. If the search was incomplete
// (GroupSearch.cut), the next session searches again.
func (u *GroupSearch) remember(reasons map[api.JobID]framework.PendingReason, failed *UnplacedGang) {
	kept := crosssession.GangGroupReasons{Fingerprint: u.fingerprint, Reasons: reasons}
	if u.cut {
		kept.Fingerprint = 0
	}
	if failed != nil && failed.explanation != nil {
		kept.Failed, kept.Explained = failed.job.UID, *failed.explanation
	}
	u.run.CrossSession.GangGroups[u.gangGroup.ID] = kept
}
