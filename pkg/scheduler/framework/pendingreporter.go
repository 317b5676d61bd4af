// SPDX-License-Identifier: Apache-2.0

package framework

import "volcano.sh/volcano/pkg/scheduler/api"

// PendingReporter reports to users why gangs wait, and measures how long they wait. It outlives sessions. The framework
// calls it when a session closes, after the last action. It may implement gangs.ReservationObserver, which plugins find
// by type assertion.
type PendingReporter interface {
	// Decide returns one reason for each gang that waits, and no reason for other gangs. It is called when the session's
	// placements have been submitted, before plugins close and statuses are written. From then on, PendingReason of the
	// session returns these reasons.
	Decide(ssn *Session) map[api.JobID]PendingReason
	// Show writes the gang's reason, if it has one, to the status of the session's PodGroup, which the cache then gets.
	// It is called for several gangs at once.
	Show(ssn *Session, job *api.JobInfo)
	// TimedOut records that the gang returned to Pending because its waiting time had passed. Plugins call it.
	TimedOut(gang api.JobID)
}

// unreported is the PendingReporter of sessions whose registry has none. It keeps the reasons that the session has
// recorded, and reports nothing.
type unreported struct{}

func (unreported) Decide(ssn *Session) map[api.JobID]PendingReason { return ssn.pending.reasons }
func (unreported) Show(*Session, *api.JobInfo)                     {}
func (unreported) TimedOut(api.JobID)                              {}
