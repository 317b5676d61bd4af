// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// A large gang may never fit in a cluster where small gangs take all resources that become free. If the configuration
// enables reservations, nodes are reserved for a gang that has waited a long time. Pods on reserved nodes run to
// their end. New pods of other gangs are placed there only if their priority is higher or a DaemonSet owns them.
//
//   - A queue has at most one reservation. All reservations together contain at most reservedPercent of the cluster.
//   - Before a reservation begins, a trial places the gang on the nodes as if they were drained (drainedtrial.go). The nodes
//     drain for at most drainTimeout, and then stay reserved for at most idleLimit.
//   - If a reservation ends although its gang was not placed, the gang's queue and namespace get no reservation for a
//     pause, which doubles each time, unless reservations were switched off.
//   - All state is in memory, where no tenant can change it. Conditions only report it. A new leader starts without state.

// Reserved is the type of the condition that reports the nodes reserved for the PodGroup's gang, why the reservation
// ended, or why no nodes could be reserved.
const Reserved scheduling.PodGroupConditionType = gangs.ReservationCondition

// The reasons of the condition Reserved.
const (
	nodesReserved    = "NodesReserved"
	noNodesToReserve = "NoNodesToReserve"
	reservationEnded = "ReservationEnded"
)

const (
	// idleLimit is how long drained nodes stay reserved for a gang that is not placed. It is longer than one session
	// plus the backoff of a failed bind transaction, so that the gang is tried at least once.
	idleLimit = 5 * time.Minute
	// trialInterval is the time between two trials that search nodes to reserve for a gang. trialTimeout is the longest
	// time of such a trial. Trials thus take less than 1% of the scheduler's time.
	trialInterval = 30 * time.Second
	trialTimeout  = 200 * time.Millisecond
	// shortestPause and longestPause limit the pause of a queue and a namespace after a reservation whose gang was
	// not placed. shortestPause is longer than a reservation lasts by default.
	shortestPause, longestPause = time.Hour, 24 * time.Hour
	// shortestRetry and longestRetry limit the pause before the next trial that searches nodes to reserve for the same
	// gang.
	shortestRetry, longestRetry = time.Minute, time.Hour
)

// reservationTerms are the plugin's arguments for node reservations.
type reservationTerms struct {
	// after is how long a gang waits before nodes are reserved for it. If after is 0, no nodes are reserved.
	after time.Duration
	// drain is how long the pods on reserved nodes may take to end. percent is how much of the cluster may be
	// reserved.
	drain   time.Duration
	percent int
}

// reservations is the state of reservations that outlives sessions and configurations.
type reservations struct {
	waiting map[api.JobID]*waitingGang
	active  map[api.QueueID]*reservation
	// pauses has the pauses of queues and namespaces, by "queue/name" and "namespace/name".
	pauses map[string]*pause
	// nextTrial is the earliest time of the next trial that searches nodes to reserve for a gang. tried has, for each
	// namespace, the time of the last such trial for one of its gangs.
	nextTrial time.Time
	tried     map[string]time.Time
}

// reservationManager begins and ends reservations in one session.
type reservationManager struct {
	ssn   *framework.Session
	terms reservationTerms
	known *reservations
	// observer is notified of reservations; nil if no observer is configured.
	observer gangs.ReservationObserver
	// network has the layers and domains of the network; nil if no gang has a topology rule.
	network *network
	// gangGroup returns the gang group of the job's gang; nil if the gang has no gang group.
	gangGroup func(job *api.JobInfo) *binding.GangGroup
}

// paused reports whether gangs of the queue and namespace currently get no reservation. A namespace that has had a
// pause itself also waits for the whole pause of the queue. Other namespaces wait only for the first part of the
// queue's pause (shortestPause), so that one tenant cannot keep all others from getting reservations.
func (r *reservations) paused(queue api.QueueID, namespace string, now time.Time) bool {
	own, of := r.pauses["namespace/"+namespace], r.pauses["queue/"+string(queue)]
	if own != nil && now.Before(own.until) {
		return true
	}
	return of != nil && now.Before(of.until) && (own != nil || now.Before(of.until.Add(shortestPause-of.length)))
}

// sorted returns the active reservations, sorted by queue.
func (r *reservations) sorted() []*reservation {
	out := slices.Collect(maps.Values(r.active))
	slices.SortFunc(out, func(l, r *reservation) int { return cmp.Compare(l.queue, r.queue) })
	return out
}

// waitingGang is a gang that waits. since is when this process first saw it with all its pods, and reason is why it
// waits. lacksRoom reports whether it waits because resources are missing.
type waitingGang struct {
	uid   types.UID
	since time.Time
	// seen is when a session had the gang last.
	seen      time.Time
	reason    framework.PendingReason
	lacksRoom bool
	retry     pause
}

// reservation is a reservation of nodes for one gang.
type reservation struct {
	gang  api.JobID
	uid   types.UID
	queue api.QueueID
	// priority is the lowest priority that pending pods of the gang have had since the nodes were chosen.
	priority int32
	request  *api.Resource
	// demand is the fingerprint of the gang's demand (demandOf) when the nodes were chosen.
	demand string
	nodes  map[string]bool
	since  time.Time
	// seen is when a session had the gang last.
	seen time.Time
	// members are the gang's tasks that were pending while the nodes were reserved.
	members map[api.TaskID]bool
	// drained is when the last pod that had to end left the reserved nodes; zero before that.
	drained time.Time
}

// pause is a time in which a queue or a namespace gets no reservation, or no trial searches nodes to reserve for a
// gang. Its length doubles with each failed trial, or with each reservation whose gang is not placed.
type pause struct {
	length time.Duration
	until  time.Time
}

func (p *pause) extend(shortest, longest time.Duration, now time.Time) {
	p.length = max(shortest, min(2*p.length, longest))
	p.until = now.Add(p.length)
}

// noteWaiting records which gangs wait, and why. The wait of a gang starts again while pods or partner gangs are
// missing or scheduling gates are set: free nodes would not help such a gang.
func (m *reservationManager) noteWaiting(now time.Time) {
	waiting := map[api.JobID]*waitingGang{}
	for uid, job := range m.ssn.Jobs {
		if m.terms.after <= 0 || !waitsWhole(job) {
			continue
		}
		known := m.known.waiting[uid]
		if known == nil || known.uid != job.PodGroup.UID {
			known = &waitingGang{uid: job.PodGroup.UID, since: now}
		}
		waiting[uid], known.seen = known, now
		reason, _ := m.ssn.PendingReason(uid)
		switch m.ssn.PendingCategory(reason) {
		case framework.PendingIncomplete, framework.PendingGated, framework.PendingGroup:
			known.since = now
		}
		known.reason, known.lacksRoom = reason, reason.Reason == framework.NotEnoughResources || reason.Reason == framework.QueueFull || reason.Reason == framework.NotEnqueued
	}
	for uid, known := range m.known.waiting {
		if m.ssn.Jobs[uid] == nil && now.Sub(known.seen) < framework.AbsentFor {
			waiting[uid] = known
		}
	}
	m.known.waiting = waiting
}

// waitsWhole reports whether the gang has members to place, and no member is bound or being bound. A member that was
// placed only in this session still counts as a member to place.
func waitsWhole(job *api.JobInfo) bool {
	return job.PodGroup != nil && len(job.TaskStatusIndex[api.Pending])+len(job.TaskStatusIndex[api.Pipelined])+len(job.TaskStatusIndex[api.Allocated]) > 0 &&
		len(job.TaskStatusIndex[api.Binding]) == 0 && alive(job) == 0
}

// reconcile ends reservations and begins new ones. The changes apply from the next session.
func (m *reservationManager) reconcile(now time.Time) {
	for _, r := range m.known.sorted() {
		m.review(r, now)
	}
	maps.DeleteFunc(m.known.pauses, func(_ string, of *pause) bool { return now.Sub(of.until) > of.length })
	maps.DeleteFunc(m.known.tried, func(_ string, at time.Time) bool { return now.Sub(at) > longestPause })
	if job := m.mostStarved(now); job != nil {
		m.reserve(job, now)
	}
	for uid, job := range m.ssn.Jobs {
		if job.PodGroup == nil || m.isReserved(uid) {
			continue
		}
		if c := conditions.Find(&job.PodGroup.Status, Reserved); c != nil && (m.known.waiting[uid] == nil || c.Reason == nodesReserved) {
			conditions.Drop(&job.PodGroup.Status, Reserved)
		}
	}
	if m.observer != nil {
		m.observer.Reservations(len(m.known.active))
	}
}

// review ends the reservation if its gang was placed, was deleted, took too long, or no longer fits in its queue. If a
// reserved node was deleted or takes no pods, or the gang has changed, review chooses nodes again.
func (m *reservationManager) review(r *reservation, now time.Time) {
	job := m.ssn.Jobs[r.gang]
	switch {
	case m.terms.after <= 0:
		m.end(r, gangs.ReservationOff, "", now)
		return
	case job == nil && now.Sub(r.seen) < framework.AbsentFor:
		return
	case job == nil || job.PodGroup == nil || job.PodGroup.UID != r.uid || job.Queue != r.queue:
		m.end(r, gangs.ReservationGone, "", now)
		return
	case alive(job) > 0 && len(job.TaskStatusIndex[api.Binding]) == 0:
		if err := r.shortOf(job); err != nil {
			m.end(r, gangs.ReservationBelowMinimum, fmt.Sprintf("pods of the gang are bound, but too few that waited for the nodes (%v)", err), now)
		} else {
			m.end(r, gangs.ReservationPlaced, "", now)
		}
		return
	}
	r.seen = now
	r.noteMembers(job)
	if len(job.TaskStatusIndex[api.Pending]) > 0 { // pods of a lower priority may have replaced others
		r.priority = min(r.priority, priorityOf(job))
	}
	if r.drained.IsZero() && len(m.leaving(r)) == 0 {
		r.drained = now
	}
	switch {
	case now.Sub(r.since) >= m.terms.drain+idleLimit:
		m.end(r, gangs.ReservationExpired, fmt.Sprintf("they were reserved for %s and the gang was still not placed", m.terms.drain+idleLimit), now)
	case r.drained.IsZero() && now.Sub(r.since) >= m.terms.drain:
		m.end(r, gangs.ReservationExpired, fmt.Sprintf("pods on them did not terminate within %s", m.terms.drain), now)
	case !r.drained.IsZero() && now.Sub(r.drained) >= idleLimit:
		m.end(r, gangs.ReservationExpired, fmt.Sprintf("they were idle for %s and the gang was still not placed", idleLimit), now)
	case len(job.TaskStatusIndex[api.Binding]) > 0: // no change until the bind succeeds or fails
	case !waitsWhole(job) || !complete(job):
		m.end(r, gangs.ReservationGone, "pods that the gang's minimum needs do not exist", now)
	case m.asksOtherwise(r, job) || m.lost(r):
		if now.Before(m.known.nextTrial) {
			return
		}
		m.known.nextTrial = now.Add(trialInterval)
		again := &reservation{gang: r.gang, uid: r.uid, queue: r.queue, since: r.since, seen: now}
		if err := m.choose(again, job); err != nil {
			m.end(r, gangs.ReservationLost, err.Error(), now)
			return
		}
		again.members = r.members
		m.known.active[r.queue] = again
		m.report(again)
	default:
		if err := m.admits(r); err != nil {
			m.end(r, gangs.ReservationRefused, err.Error(), now)
		}
	}
}

// end ends the reservation. Its queue and namespace then get no reservation for a pause, unless the gang was placed
// or reservations were disabled.
func (m *reservationManager) end(r *reservation, how gangs.ReservationEnd, why string, now time.Time) {
	known := m.known
	delete(known.active, r.queue)
	if m.observer != nil {
		m.observer.ReservationEnded(how)
	}
	namespace, _, _ := strings.Cut(string(r.gang), "/")
	pauses := []string{"queue/" + string(r.queue), "namespace/" + namespace}
	switch how {
	case gangs.ReservationOff:
		return
	case gangs.ReservationPlaced:
		for _, of := range pauses {
			delete(known.pauses, of)
		}
		return
	}
	if waits := known.waiting[r.gang]; waits != nil {
		waits.retry.extend(shortestRetry, longestRetry, now)
		if how == gangs.ReservationExpired {
			why += ": " + waits.reason.Reason + ": " + waits.reason.Message
		}
	}
	until := now
	for _, of := range pauses {
		if known.pauses[of] == nil {
			known.pauses[of] = &pause{}
		}
		known.pauses[of].extend(shortestPause, longestPause, now)
		if known.pauses[of].until.After(until) {
			until = known.pauses[of].until
		}
	}
	if why != "" { // so the gang still exists
		m.reportReservation(m.ssn.Jobs[r.gang], reservationEnded, fmt.Sprintf("Released %s, no new reservation before %s: %s",
			brief.Count(len(r.nodes), "reserved node"), clockTime(until), why))
	}
}

// mostStarved returns the gang for which the next trial searches nodes to reserve; nil if no trial is due. Namespaces
// take turns. Within a namespace, gangs with fewer failed trials come first, then gangs with the highest pod
// priority, then gangs with the longest wait.
func (m *reservationManager) mostStarved(now time.Time) (most *api.JobInfo) {
	known := m.known
	if m.terms.after <= 0 || now.Before(known.nextTrial) {
		return nil
	}
	before := func(l, r *api.JobInfo) bool {
		left, right := known.waiting[l.UID], known.waiting[r.UID]
		return cmp.Or(known.tried[l.Namespace].Compare(known.tried[r.Namespace]), cmp.Compare(left.retry.length, right.retry.length), cmp.Compare(priorityOf(r), priorityOf(l)),
			left.since.Compare(right.since), cmp.Compare(l.UID, r.UID)) < 0
	}
	for uid, waits := range known.waiting {
		job := m.ssn.Jobs[uid]
		if job == nil || job.PodGroup == nil || job.PodGroup.UID != waits.uid || !waits.lacksRoom || now.Sub(waits.since) < m.terms.after ||
			now.Before(waits.retry.until) || known.active[job.Queue] != nil || known.paused(job.Queue, job.Namespace, now) {
			continue
		}
		if companions, alone := framework.Companions(m.ssn.Jobs, m.gangGroup(job)); companions == nil && alone && waitsWhole(job) && complete(job) && (most == nil || before(job, most)) {
			most = job
		}
	}
	return most
}

// reserve begins a reservation for the gang if a trial finds nodes for it. Otherwise it reports on the PodGroup why
// no nodes can be reserved.
func (m *reservationManager) reserve(job *api.JobInfo, now time.Time) {
	known := m.known
	known.nextTrial = now.Add(trialInterval)
	known.tried[job.Namespace] = now
	r := &reservation{gang: job.UID, uid: job.PodGroup.UID, queue: job.Queue, since: now, seen: now}
	if err := m.choose(r, job); err != nil {
		known.waiting[job.UID].retry.extend(shortestRetry, longestRetry, now)
		conditions.Set(&job.PodGroup.Status, m.ssn.UID, Reserved, noNodesToReserve, brief.Text(fmt.Sprintf("Waiting longer than %s (%s), but no nodes can be reserved: %v", argStarves, m.terms.after, err)))
		return
	}
	known.active[job.Queue] = r
	r.noteMembers(job)
	m.report(r)
}

// report reports on the gang's PodGroup which nodes are reserved.
func (m *reservationManager) report(r *reservation) {
	names := brief.List{First: mostNamed}
	for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
		names.Add(name)
	}
	m.reportReservation(m.ssn.Jobs[r.gang], nodesReserved, fmt.Sprintf("Reserved %s (%s) for at most %s: the gang has waited longer than %s (%s)",
		brief.Count(len(r.nodes), "node"), listed(names), m.terms.drain+idleLimit, argStarves, m.terms.after))
}

// reportReservation sets the condition Reserved on the job's PodGroup. If the condition changed, it also records an
// event.
func (m *reservationManager) reportReservation(job *api.JobInfo, reason, message string) {
	message = brief.Text(message)
	if conditions.Set(&job.PodGroup.Status, m.ssn.UID, Reserved, reason, message) {
		m.ssn.RecordPodGroupEvent(job.PodGroup, v1.EventTypeNormal, reason, message)
	}
}
