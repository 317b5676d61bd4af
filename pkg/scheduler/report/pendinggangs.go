// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// PendingGangs decides, when a session closes, why gangs wait, and measures how long gangs wait. It outlives sessions
// and configurations. The methods PendingReasons and Explanations are safe for concurrent use. All others are called on
// the scheduling goroutine, or as framework.PendingReporter says.
type PendingGangs struct {
	observer GangObserver
	// lastReports are the reasons that were last reported to waiting gangs.
	lastReports lastReports
	timers      pendingTimers

	mu sync.Mutex
	// reasons and explanations are those of the session that closed last.
	reasons      map[api.JobID]framework.PendingReason
	explanations []framework.GangExplanation
}

var (
	_ framework.PendingReporter = (*PendingGangs)(nil)
	_ gangs.ReservationObserver = (*PendingGangs)(nil)
)

// NewPendingGangs returns a PendingGangs that has seen no session. The observer may be nil.
func NewPendingGangs(observer GangObserver) *PendingGangs {
	if observer == nil {
		observer = unobserved{}
	}
	return &PendingGangs{observer: observer, lastReports: lastReports{}, timers: pendingTimers{}}
}

// Decide finds one reason for every gang that waits, and for no other gang. The reason comes from the session's data,
// or else from the actions that tried to place the gang. For each gang it reads the gang's tasks and, if the PodGroup
// was not admitted, repeats the plugins' votes. Plugins that write conditions when they close then write this reason
// instead of the filter results of every node for every pod.
func (p *PendingGangs) Decide(ssn *framework.Session) map[api.JobID]framework.PendingReason {
	var waiting []*api.JobInfo
	for _, job := range ssn.Jobs {
		if hasPending(job) {
			waiting = append(waiting, job)
		}
	}
	// Some plugins count the gangs that they have admitted, so their votes depend on the order of gangs. A fixed order
	// gives the same votes in each session.
	slices.SortFunc(waiting, func(l, r *api.JobInfo) int { return cmp.Compare(l.UID, r.UID) })
	reasons := make(map[api.JobID]framework.PendingReason, len(waiting))
	for _, job := range waiting {
		reason := pendingReasonOf(ssn, job)
		reason.Message = brief.Text(reason.Message)
		reason = p.lastReports.pace(job, reason)
		reasons[job.UID] = reason
		job.JobFitErrors = reason.Message
		clear(job.NodesFitErrors)
	}
	p.lastReports.keep(reasons)
	p.tick(ssn, reasons, time.Now())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reasons, p.explanations = reasons, ssn.Explanations()
	return maps.Clone(reasons) // the session may change its own
}

// PendingReasons returns the reasons why gangs waited when the last session closed. The map is read-only.
func (p *PendingGangs) PendingReasons() map[api.JobID]framework.PendingReason {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reasons
}

// Explanations returns the explanations of gangs that fitted nowhere when the last session closed, in no order.
func (p *PendingGangs) Explanations() []framework.GangExplanation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]framework.GangExplanation{}, p.explanations...) // not nil, which JSON writes as null
}

// ReservationEnded implements gangs.ReservationObserver.
func (p *PendingGangs) ReservationEnded(end gangs.ReservationEnd) { p.observer.ReservationEnded(end) }

// Reservations implements gangs.ReservationObserver.
func (p *PendingGangs) Reservations(now int) { p.observer.Reservations(now) }
