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

// errSearching is the error of an eviction while sessions do not see all jobs.
var errSearching = errors.New("evictions are paused while the scheduler isolates an object that makes it panic")

// Quarantine keeps objects out of sessions that would break or slow them (package quarantine), and reports them.
type Quarantine struct {
	objects *quarantine.Quarantine
	reports *report.Reporter
}

// CyclePanicked records a cycle that panicked. turn is the gang that was being scheduled (empty: unknown), and what the
// message of the panic. It reports whether a culprit was found, and whether the next cycle should run at once because
// it sees other objects.
func (q *Quarantine) CyclePanicked(turn api.JobID, what string) (culprit, another bool) {
	found, another := q.objects.Panicked(time.Now(), turn, what)
	q.reports.Panicked(found)
	return len(found) > 0, another
}

// CycleSucceeded records a cycle that ended normally. It reports whether objects are quarantined or searched for, so
// that cycles must go on.
func (q *Quarantine) CycleSucceeded() (busy bool) {
	found, busy := q.objects.Succeeded()
	q.reports.Panicked(found)
	return busy
}

// Searching reports whether the object that makes cycles panic is being searched for.
func (q *Quarantine) Searching() bool { return q.objects.Searching() }

// Counts returns the number of quarantined objects, by kind.
func (q *Quarantine) Counts() map[string]int { return q.objects.Counts() }

// takeFrom removes quarantined objects from the snapshot, and reports gangs that are newly quarantined.
func (q *Quarantine) takeFrom(snapshot *api.ClusterInfo, by *snapshot.Copies) {
	for gang, why := range q.objects.RemoveFrom(snapshot, by, time.Now()) {
		q.reports.ReportQuarantined(gang, why)
	}
}
