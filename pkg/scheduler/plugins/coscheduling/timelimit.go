// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// An admitted gang (phase Inqueue of its PodGroup) without a bound member counts against the limit on admitted gangs of
// its namespace. If no member is bound within the waiting time, it times out. Its PodGroup is then Pending again, other
// gangs of its namespace may be admitted, and it may be admitted again after a backoff.
//
//	Pending --admitted--> Inqueue, GangAdmitted --bound--> Running, no condition
//	   ^                   | waiting time
//	   +-- backoff -- Pending, TimedOut
//
// All gangs of a group time out together, when the first waiting time of a gang of the group ends. The state is in
// memory, where no tenant can change it. The condition TimeLimit of the PodGroups reports it. A new leader starts all
// waiting times again.

// TimeLimit is the type of the condition of a gang with a waiting time, from its admission until a member of its group
// is bound or nodes are reserved.
const TimeLimit = gangs.TimeLimitCondition

// The reasons of the condition TimeLimit.
const (
	gangAdmitted = "GangAdmitted"
	timedOut     = gangs.TimedOut
)

// The first and the longest backoff of a gang that timed out. The backoff doubles with each timeout. It varies by up
// to a fifth (jitter), so that gangs that timed out together are not admitted again together.
const (
	firstBackoff = 10 * time.Second
	lastBackoff  = 5 * time.Minute
	jitter       = 0.2
)

// admissionDeadline holds the waiting time and the backoff that the gangs of a gang group share, except satisfied
// gangs. A gang without a gang group has its own.
type admissionDeadline struct {
	id    string
	gangs []*gang
	// until is when the gangs may be admitted again after a timeout; zero if they are in no backoff.
	until time.Time
	// tries is how often the gangs have timed out.
	tries int
}

// knownLimit records since when a gang is admitted and waits, or when it last timed out. It outlives the session.
type knownLimit struct {
	uid types.UID
	// reason is gangAdmitted or timedOut, and since is when that reason began. message is the message of the
	// condition TimeLimit.
	reason  string
	since   time.Time
	tries   int
	message string
	// seen is when a session last had the gang.
	seen time.Time
}

// holdBack finds the gangs in a backoff, and prevents their admission and placement.
func (s *session) holdBack() {
	s.limits = map[string]*admissionDeadline{}
	for _, g := range s.gangs {
		s.limitOf(g)
	}
	now := time.Now()
	for _, l := range s.limits {
		l.until = l.backoffEnds(now)
	}
	s.endEarly()
	for _, l := range s.limits {
		if l.until.IsZero() {
			continue
		}
		last := slices.MaxFunc(l.gangs, func(a, b *gang) int { return a.timedOutAt().Compare(b.timedOutAt()) })
		for _, g := range l.gangs {
			message := last.limit.message // for a gang that joined the gang group after the timeout
			if !g.timedOutAt().IsZero() {
				message = g.limit.message
			}
			g.waits = &api.ValidateResult{Reason: timedOut, Message: message}
			g.returnToPending()
		}
	}
}

// limitOf adds the gang to the admissionDeadline of its gang group, unless the gang is satisfied. It restores from
// earlier sessions when the gang was admitted or timed out.
func (s *session) limitOf(g *gang) {
	if g.satisfied { // a satisfied gang has no time limit, and other gangs of its group do not wait for it
		g.dropLimit()
		return
	}
	l := s.limits[g.id]
	if l == nil {
		l = &admissionDeadline{id: g.id}
		s.limits[g.id] = l
	}
	l.gangs = append(l.gangs, g)
	if known, ok := s.memory.limits[g.UID]; ok && known.uid == g.PodGroup.UID {
		g.limit = &known
		l.tries = max(l.tries, known.tries)
		conditions.Set(&g.PodGroup.Status, s.ssn.UID, TimeLimit, known.reason, known.message)
		return
	}
	conditions.Drop(&g.PodGroup.Status, TimeLimit)
}

// backoffEnds returns when the backoff of the gang group ends; zero if the gang group is in no backoff.
func (l *admissionDeadline) backoffEnds(now time.Time) time.Time {
	if l.hasBoundMember() || l.inFlight() {
		return time.Time{}
	}
	var ends time.Time
	for _, g := range l.gangs {
		timedOutAt := g.timedOutAt()
		if timedOutAt.IsZero() {
			continue
		}
		if end := timedOutAt.Add(l.backoff()); end.After(now) && end.After(ends) {
			ends = end
		}
	}
	return ends
}

// timedOutAt returns when the gang timed out; zero if it has not, or was admitted again since.
func (g *gang) timedOutAt() time.Time {
	if g.limit == nil || g.limit.reason != timedOut {
		return time.Time{}
	}
	return g.limit.since
}

// backoff returns the length of the gang group's backoff. It grows with tries, the number of timeouts of the gang
// group.
func (l *admissionDeadline) backoff() time.Duration {
	backoff := firstBackoff
	for range min(max(l.tries, 1)-1, 10) {
		backoff = min(2*backoff, lastBackoff)
	}
	hash := fnv.New32a()
	fmt.Fprintf(hash, "%s %d", l.id, l.tries)
	return time.Duration(float64(backoff) * (1 - jitter + 2*jitter*float64(hash.Sum32()%1000)/1000))
}

// hasBoundMember reports whether a member of a gang of the gang group is bound or running. Such a gang group never times
// out: the members that a partially bound gang lacks are still placed.
func (l *admissionDeadline) hasBoundMember() bool {
	return slices.ContainsFunc(l.gangs, func(g *gang) bool { return alive(g.JobInfo) > 0 })
}

// inFlight reports whether members of a gang of the gang group are being bound.
func (l *admissionDeadline) inFlight() bool {
	return slices.ContainsFunc(l.gangs, func(g *gang) bool { return len(g.TaskStatusIndex[api.Binding]) > 0 })
}

// RefuseAdmission implements framework.AdmissionVoter. It refuses to admit gangs that are in a backoff.
func (s *session) RefuseAdmission(job *api.JobInfo) *framework.PendingReason {
	if waits := s.valid(job); waits != nil && waits.Reason == timedOut {
		return &framework.PendingReason{Reason: waits.Reason, Message: waits.Message}
	}
	return nil
}

// Infeasible implements framework.AdmissionVoter.
func (s *session) Infeasible(*api.JobInfo) bool { return false }

// returnToPending returns the gang's PodGroup to phase Pending, so that the gang must be admitted again.
func (g *gang) returnToPending() { g.PodGroup.Status.Phase = scheduling.PodGroupPending }

// limitWaits times out the gang groups whose waiting time has ended. It saves for the next session when each gang was
// admitted or timed out, and keeps that of gangs that have been absent from sessions for less than framework.AbsentFor.
// It returns when the next waiting time or backoff ends; zero if there is none.
func (s *session) limitWaits(now time.Time) (next time.Time) {
	limits := map[api.JobID]knownLimit{}
	for _, l := range s.limits {
		next = sooner(next, s.limitWait(l, now))
		for _, g := range l.gangs {
			if g.limit != nil {
				g.limit.tries, g.limit.seen = l.tries, now
				limits[g.UID] = *g.limit
			}
		}
	}
	for uid, known := range s.memory.limits {
		if s.ssn.Jobs[uid] == nil && now.Sub(known.seen) < framework.AbsentFor {
			limits[uid] = known
		}
	}
	s.memory.limits = limits
	return next
}

// limitWait times out the gang group if its waiting time has ended. It returns when its waiting time or backoff ends.
// It returns zero if the gang group has neither, or while its members are being bound. It also returns zero if allocate
// has not tried its gangs in this session.
func (s *session) limitWait(l *admissionDeadline, now time.Time) time.Time {
	switch {
	case l.hasBoundMember(), slices.ContainsFunc(l.gangs, func(g *gang) bool { return s.reservations.isReserved(g.UID) }):
		// A group with a bound member, or with nodes reserved for one of its gangs, does not time out. In a backoff,
		// its gangs could not be completed, and could not use the reserved nodes.
		for _, g := range l.gangs {
			g.dropLimit()
		}
		return time.Time{}
	case l.inFlight(): // the waiting time continues: if the bind fails after its end, the group times out
		return time.Time{}
	case !l.until.IsZero():
		for _, g := range l.gangs {
			g.returnToPending() // again in each session: upstream admits a gang without minResources without calling the plugin
		}
		return l.until
	}
	limit, first, since := l.clock(s, now)
	if first == nil {
		return time.Time{}
	}
	if end := since.Add(limit); end.After(now) {
		return end
	}
	if slices.ContainsFunc(l.gangs, func(g *gang) bool { return s.ssn.Placements.IsUntried(g.UID) }) {
		return time.Time{} // times out after the next session in which allocate tries the gangs
	}
	l.tries++
	s.timeOut(l, first, now.Sub(since), now)
	return now.Add(l.backoff())
}

// clock returns the shortest waiting time of the group's gangs, the gang that was admitted first, and the time of its
// admission. first is nil if no gang of the group is admitted.
func (l *admissionDeadline) clock(s *session, now time.Time) (limit time.Duration, first *gang, since time.Time) {
	limit = l.gangs[0].Settings.WaitingTime
	for _, g := range l.gangs {
		limit = min(limit, g.Settings.WaitingTime)
		if g.PodGroup.Status.Phase != scheduling.PodGroupInqueue {
			if g.limit != nil && g.limit.reason == gangAdmitted {
				g.dropLimit()
			}
			continue
		}
		began := s.admittedSince(g, now)
		if first == nil || began.Before(since) || began.Equal(since) && g.UID < first.UID {
			first, since = g, began
		}
	}
	// If the gang that was admitted first waits for resources that are being released, the waiting time is doubled.
	if first != nil && len(first.TaskStatusIndex[api.Pipelined]) > 0 && first.IsPipelined() && limit < 1<<62 {
		limit *= 2
	}
	return limit, first, since
}

// admittedSince returns when the gang was admitted. If no admission is recorded, it records one now.
func (s *session) admittedSince(g *gang, now time.Time) time.Time {
	if g.limit != nil && g.limit.reason == gangAdmitted {
		return g.limit.since
	}
	s.setLimit(g, gangAdmitted, "Admitted; returns to Pending unless a member is bound within its waiting time", now)
	return now
}

// setLimit records that the gang was admitted or timed out now, as reason says, and sets the condition TimeLimit on its
// PodGroup.
func (s *session) setLimit(g *gang, reason, message string, now time.Time) {
	g.limit = &knownLimit{uid: g.PodGroup.UID, reason: reason, since: now, message: message}
	conditions.Set(&g.PodGroup.Status, s.ssn.UID, TimeLimit, reason, message)
}

// dropLimit removes the record of the gang's admission or timeout, and the condition TimeLimit from its PodGroup.
func (g *gang) dropLimit() {
	g.limit = nil
	conditions.Drop(&g.PodGroup.Status, TimeLimit)
}

// timeOut returns all gangs of the group to phase Pending, starts their backoff, and reports the timeout.
func (s *session) timeOut(l *admissionDeadline, first *gang, waited time.Duration, now time.Time) {
	reason, _ := s.ssn.PendingReason(first.UID)
	state, why := "Not scheduled", fmt.Sprintf("%s: %s", reason.Reason, reason.Message)
	if len(l.gangs) > 1 {
		state, why = "Gang group not scheduled", fmt.Sprintf("gang %s: %s", first.UID, why)
	}
	message := brief.Text(fmt.Sprintf("%s within %s (timeout %d), retrying after %s: %s",
		state, waited.Round(time.Second), l.tries, clockTime(now.Add(l.backoff())), why))
	for _, g := range l.gangs {
		s.setLimit(g, timedOut, message, now)
		g.returnToPending()
		s.ssn.Reporter.TimedOut(g.UID)
		s.ssn.RecordPodGroupEvent(g.PodGroup, v1.EventTypeWarning, timedOut, message)
	}
}

func clockTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// sooner returns the earlier of two times. A zero time is ignored.
func sooner(l, r time.Time) time.Time {
	if l.IsZero() || !r.IsZero() && r.Before(l) {
		return r
	}
	return l
}
