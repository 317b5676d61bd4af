// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/crosssession"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// GangGroup records why the gangs of one gang group wait.
type GangGroup struct {
	run *state.Run
	of  *binding.GangGroup
	// pending are the tasks to be placed, by gang.
	pending map[api.JobID]*state.Pending
	// Gangs are the gangs to be placed.
	Gangs []*api.JobInfo
	// fingerprint is a hash of everything that the result of a search depends on; 0 if a part of it cannot be compared
	// between sessions.
	fingerprint uint64
}

// UnplacedGroup says why a search placed no gang of a gang group.
type UnplacedGroup struct {
	// Failed is the gang that found no room; nil if arithmetic has excluded the group.
	Failed *UnplacedGang
	// Lacking is why arithmetic on resources excludes that the gangs have room together; empty if it does not exclude it.
	Lacking string
	// Incomplete reports whether another search may find room although nothing has changed: the session's search budget
	// (crosssession.Budget) was too small, or a gang failed for a reason that the fingerprint of its group does not cover.
	Incomplete bool
}

// UnplacedGang is a gang that found no room, the reason, and the number of gangs of its gang group that were placed before it.
type UnplacedGang struct {
	Job         *api.JobInfo
	Reason      framework.PendingReason
	Explanation *framework.GangExplanation
	Beside      int
}

// NewGangGroup returns the explanations of the gang group, none of them recorded. pending are the tasks to be placed, by gang. The
// caller adds the gangs to be placed to Gangs.
func NewGangGroup(run *state.Run, of *binding.GangGroup, pending map[api.JobID]*state.Pending) *GangGroup {
	return &GangGroup{run: run, of: of, pending: pending}
}

// Unplaced records why each gang of the gang group waits after a search. The gang that found no room gets its own
// explanation, and the reasons of the other gangs name it.
func (g *GangGroup) Unplaced(found UnplacedGroup) {
	why := found.Lacking
	if found.Failed != nil {
		why = fmt.Sprintf("gang %s does not fit: %s", found.Failed.Job.UID, brief.Part(found.Failed.Reason.Message))
	}
	g.remember(g.setReasons(found.Failed, why), found)
}

// Blocked records for each gang of the gang group that the group is not tried in this session, because of the
// named gang.
func (g *GangGroup) Blocked(gang api.JobID, reason string) {
	g.setReasons(nil, fmt.Sprintf("gang %s %s", gang, reason))
}

// setReasons records why each gang of the gang group waits, and returns the reasons. why is the reason of all gangs but
// failed.
func (g *GangGroup) setReasons(failed *UnplacedGang, why string) map[api.JobID]framework.PendingReason {
	reasons := map[api.JobID]framework.PendingReason{}
	for _, terms := range g.of.Gangs {
		job, pending := g.run.Session.Jobs[terms.Gang], g.pending[terms.Gang]
		if job == nil || pending == nil && len(state.PendingBestEffort(job)) == 0 {
			continue
		}
		reason := framework.PendingReason{Reason: framework.NotEnoughResources, Message: fmt.Sprintf("gang group %s must be scheduled together; %s", brief.Part(g.of.ID), why)}
		if failed != nil && failed.Job == job {
			reason = failed.Reason
			if failed.Beside > 0 {
				reason.Message = fmt.Sprintf("does not fit beside %s of its group: %s", brief.Count(failed.Beside, "placed gang"), reason.Message)
			}
		}
		reasons[job.UID] = reason
		g.run.SetPendingReason(job, reason)
	}
	return reasons
}

// Reuse records the last session's explanations for the gang group's gangs again, if nothing that they depend on has
// changed. It returns false if no valid explanations exist.
func (g *GangGroup) Reuse() bool {
	if g.fingerprint = state.FingerprintOfGangGroup(g.run, g.Gangs, g.pending); g.fingerprint == 0 {
		return false
	}
	found, ok := g.run.CrossSession.FormerGangGroups[g.of.ID]
	if !ok || found.Fingerprint != g.fingerprint {
		return false
	}
	found.Explained.Time = g.run.Now()
	g.repeat(found)
	return true
}

// Repeat records why the gangs of the gang group waited when the group was last tried. The group is not tried in this
// session, because failed attempts for other gangs of its namespace have used up the namespace's time (crosssession.Turns).
func (g *GangGroup) Repeat() {
	found, ok := g.run.CrossSession.FormerGangGroups[g.of.ID]
	if ok && !slices.ContainsFunc(g.Gangs, func(job *api.JobInfo) bool { return found.Reasons[job.UID].Reason == "" }) {
		g.repeat(found)
		return
	}
	for _, job := range g.Gangs {
		g.run.SetPendingReason(job, NotTried(g.Gangs[0].Namespace))
	}
}

// repeat records the explanations of an earlier attempt for the gang group's gangs, and keeps them for the next session.
func (g *GangGroup) repeat(found crosssession.GangGroupReasons) {
	g.run.CrossSession.GangGroups[g.of.ID] = found
	for uid, reason := range found.Reasons {
		if job := g.run.Session.Jobs[uid]; job != nil {
			g.run.SetPendingReason(job, reason)
		}
	}
	if g.run.Session.Jobs[found.Failed] != nil {
		g.run.Session.Explain(found.Failed, found.Explained)
	}
}

// remember keeps, for the next session, why each gang of the gang group waits. If the search was incomplete, the next
// session searches again.
func (g *GangGroup) remember(reasons map[api.JobID]framework.PendingReason, found UnplacedGroup) {
	kept := crosssession.GangGroupReasons{Fingerprint: g.fingerprint, Reasons: reasons}
	if found.Incomplete {
		kept.Fingerprint = 0
	}
	if failed := found.Failed; failed != nil && failed.Explanation != nil {
		kept.Failed, kept.Explained = failed.Job.UID, *failed.Explanation
	}
	g.run.CrossSession.GangGroups[g.of.ID] = kept
}
