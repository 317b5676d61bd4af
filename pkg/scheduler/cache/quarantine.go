// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"errors"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/quarantine"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/snapshot"
)

// errSearching is why a pod is not evicted while the search for an object that makes cycles panic hides jobs from
// sessions.
var errSearching = errors.New("evictions are paused while the scheduler isolates an object that makes it panic")

// Quarantine keeps objects out of sessions that would break or slow them (package quarantine), and reports them.
type Quarantine struct {
	objects *quarantine.Quarantine
	reports *report.Reporter
}

// CyclePanicked records a cycle that panicked. turn is the gang that was being scheduled; empty if unknown. `what` is
// the message of the panic. culprit reports whether an object that causes panics was found. another reports whether the
// next cycle must run at once, because its snapshot has other objects than the cycle that panicked.
func (q *Quarantine) CyclePanicked(turn api.JobID, what string) (culprit, another bool) {
	found, another := q.objects.Panicked(time.Now(), turn, what)
	q.reports.Panicked(found)
	return len(found) > 0, another
}

// CycleSucceeded records a cycle that ended normally. It reports whether objects are quarantined or searched for,
// because cycles must then continue.
func (q *Quarantine) CycleSucceeded() (busy bool) {
	found, busy := q.objects.Succeeded()
	q.reports.Panicked(found)
	return busy
}

// Searching reports whether a search for the object that makes cycles panic is running.
func (q *Quarantine) Searching() bool { return q.objects.Searching() }

// Counts returns the number of quarantined objects, by kind.
func (q *Quarantine) Counts() map[string]int { return q.objects.Counts() }

// takeFrom removes quarantined objects from the snapshot, and reports gangs that are newly quarantined. The parameter
// by has the copies of nodes and jobs that make up a session's snapshot; it is nil for any other snapshot.
func (q *Quarantine) takeFrom(snapshot *api.ClusterInfo, by *snapshot.Copies) {
	for gang, why := range q.objects.RemoveFrom(snapshot, by, time.Now()) {
		q.reports.ReportQuarantined(gang, why)
	}
}
