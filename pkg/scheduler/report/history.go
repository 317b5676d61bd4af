// SPDX-License-Identifier: Apache-2.0

package report

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	vclisters "volcano.sh/apis/pkg/client/listers/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report/statuswriter"
)

// ResendEvery is how often the events of a waiting gang are recorded again. Otherwise a pod's event would be recorded
// only when its condition changes. But the API server drops an event after an hour, while the pod may still wait. The
// recorder drops repeated events before that time.
const ResendEvery = 10 * time.Minute

// gangHistory holds data about gangs across sessions. It holds no data about a gang whose PodGroup the watch does not
// show: forget was already called for such a gang, so the data would stay forever.
type gangHistory struct {
	podGroups vclisters.PodGroupLister

	mu sync.Mutex
	// failures has the failure of each gang's last transaction, until the gang is bound or its placement fails for another
	// reason.
	failures map[api.JobID]Failure
	arrivals map[api.JobID]arrival
	// resent has, by gang, the time at which the gang's events were last recorded again.
	resent map[api.JobID]time.Time
}

// arrival is a gang's number of tasks, and the time since which the gang has had this number.
type arrival struct {
	tasks int
	since time.Time
}

func newGangHistory(podGroups vclisters.PodGroupLister) *gangHistory {
	return &gangHistory{podGroups: podGroups, failures: map[api.JobID]Failure{}, arrivals: map[api.JobID]arrival{}, resent: map[api.JobID]time.Time{}}
}

func (m *gangHistory) failure(gang api.JobID) (Failure, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	failure, ok := m.failures[gang]
	return failure, ok
}

// recordFailure records the failure of the gang's transaction, in which the given members failed. If the failure only
// repeats the last one, it keeps the last one instead. It returns the failure to be reported, with the nodes of the new
// failure. pods are the gang's current pods.
func (m *gangHistory) recordFailure(gang api.JobID, failure Failure, failed []binding.Failure, pods map[types.UID]bool) Failure {
	m.mu.Lock()
	defer m.mu.Unlock()
	nodes := failure.Nodes
	last, ok := m.failures[gang]
	repeated := ok && failure.repeats(last)
	if repeated {
		failure = last
	}
	notices := failure.markReported(failed, pods)
	m.failures[gang] = failure
	failure.Nodes, failure.gang, failure.repeated, failure.notices = nodes, gang, repeated, notices
	return failure
}

func (m *gangHistory) forgetFailure(gang api.JobID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.failures, gang)
}

func (m *gangHistory) failedWithClaims() (gangs []api.JobID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for gang, failure := range m.failures {
		if failure.claims {
			gangs = append(gangs, gang)
		}
	}
	return gangs
}

// isArriving reports whether the gang's pods are still being created. That is so if its number of tasks changed a short
// time ago (statuswriter.Settle), and it has pending tasks or no tasks yet.
func (m *gangHistory) isArriving(job *api.JobInfo) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, ok := m.arrivals[job.UID]
	if !ok || last.tasks != len(job.Tasks) {
		last = arrival{tasks: len(job.Tasks), since: time.Now()}
		if m.exists(job) {
			m.arrivals[job.UID] = last
		}
	}
	return time.Since(last.since) < statuswriter.Settle && (len(job.Tasks) == 0 || len(job.TaskStatusIndex[api.Pending]) > 0)
}

// isTimeToResend reports whether the gang's events are due to be recorded again. It returns false for a new gang,
// because the events of a new gang were recorded just before.
func (m *gangHistory) isTimeToResend(job *api.JobInfo) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, ok := m.resent[job.UID]
	if ok && time.Since(last) < ResendEvery {
		return false
	}
	if m.exists(job) {
		m.resent[job.UID] = time.Now()
	}
	return ok
}

// exists reports whether the watch shows the gang's PodGroup. The caller holds the mutex while it checks and then adds
// data. If the PodGroup is deleted in the meantime, forget waits for the mutex and then removes this data.
func (m *gangHistory) exists(job *api.JobInfo) bool {
	_, err := m.podGroups.PodGroups(job.Namespace).Get(job.Name)
	return err == nil
}

func (m *gangHistory) forget(gang api.JobID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.failures, gang)
	delete(m.arrivals, gang)
	delete(m.resent, gang)
}

func (m *gangHistory) size() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	pods := 0
	for _, failure := range m.failures {
		pods += len(failure.reported)
	}
	return len(m.failures) + pods + len(m.arrivals) + len(m.resent)
}
