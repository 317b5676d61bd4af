// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/plugins/util"
)

// addVoter makes the plugin vote on the admission of gangs before all other plugins, wherever it is in the conf. Some of
// upstream's plugins count a gang as admitted when they vote for it, so a refusal must come before their votes. Also, if
// an earlier tier permits the gang, later tiers do not vote.
func (ssn *Session) addVoter(plugin string, voter AdmissionVoter) {
	ssn.voters = append(ssn.voters, ofPlugin[AdmissionVoter]{plugin, voter})
	ssn.Tiers = askFirst(ssn.Tiers, plugin, enqueueOption)
	ssn.AddJobEnqueueableFn(plugin, func(obj any) int {
		job := obj.(*api.JobInfo)
		ssn.SetCurrentJob(job.UID)
		var reason *PendingReason
		if guarded(plugin, func() { reason = voter.RefuseAdmission(job) }); reason == nil {
			return util.Abstain
		}
		ssn.SetPendingReason(job.UID, *reason)
		return util.Reject
	})
}

// Infeasible reports whether a plugin says that the gang never fits (AdmissionVoter).
func (ssn *Session) Infeasible(job *api.JobInfo) bool {
	return slices.ContainsFunc(ssn.voters, func(v ofPlugin[AdmissionVoter]) (never bool) {
		guarded(v.plugin, func() { never = v.is.Infeasible(job) })
		return never
	})
}
