// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"errors"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/setaside"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/snapshot"
)

// errSearching refuses evictions while sessions do not see all jobs.
var errSearching = errors.New("nothing is evicted while the scheduler looks for the object that makes its cycles panic")

// Quarantine keeps objects out of sessions that would stop others (package setaside), and reports them.
type Quarantine struct {
	aside   *setaside.Aside
	reports *report.Reporter
}

// CyclePanicked records a cycle that panicked: during whose turn, if that is known, and with what message. It
// returns whether a culprit was found, and whether the next cycle will be another one, so that it should run at once.
func (q *Quarantine) CyclePanicked(turn api.JobID, what string) (culprit, another bool) {
	found, another := q.aside.Panicked(time.Now(), turn, what)
	q.reports.Panicked(found)
	return len(found) > 0, another
}

// CycleSucceeded records a cycle that came to its end. It returns whether objects are set aside or searched for, so that
// cycles are to go on.
func (q *Quarantine) CycleSucceeded() (busy bool) {
	found, busy := q.aside.Succeeded()
	q.reports.Panicked(found)
	return busy
}

// Searching reports whether the object that makes cycles panic is searched for.
func (q *Quarantine) Searching() bool { return q.aside.Searching() }

// Counts returns how many objects are set aside, by kind.
func (q *Quarantine) Counts() map[string]int { return q.aside.Counts() }

// takeFrom takes from the snapshot what sessions do without, and reports what is new.
func (q *Quarantine) takeFrom(snapshot *api.ClusterInfo, by *snapshot.Copies) {
	for gang, why := range q.aside.TakeFrom(snapshot, by, time.Now()) {
		q.reports.SetAside(gang, why)
	}
}
