// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
)

// BeginVote is called before upstream's plugins vote on the admission of the gang. If they admit it, they do not count
// its minResources. The vote ends with the next call of BeginVote, or with the action.
func (u *QueueUse) BeginVote(job *api.JobInfo) { u.vote.Begin(job) }

// Execute executes the action in the session.
func (ssn *Session) Execute(action vcframework.Action) {
	ssn.Action = action.Name()
	defer ssn.QueueUse.vote.End()
	if adapter, ours := action.(*actionAdapter); ours {
		adapter.action.Execute(ssn)
		return
	}
	action.Execute(ssn.Session)
}
