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
	"volcano.sh/volcano/pkg/scheduler/plugins/util"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
)

// An admitted gang (its PodGroup is Inqueue) reserves resources of its queue. If it is not placed within its waiting time, it times
// out: it is Pending again, its resources are free for others, and it is admitted again after a backoff.
//
//	Pending --admitted--> Inqueue, GangAdmitted --placed--> Running, no condition
//	   ^                   | waiting time
//	   +-- backoff -- Pending, TimedOut
//
// All gangs of a group wait and time out together, when the first waiting time of its gangs ends. The state is in memory, where no
// tenant can write; the condition TimeLimit of the PodGroups reports it. A new leader starts all times again.

// TimeLimit is the type of the condition of a gang with a waiting time, from its admission until it is placed.
const TimeLimit = gangs.TimeLimitCondition

// The reasons of that condition.
const (
	gangAdmitted = "GangAdmitted"
	timedOut     = gangs.TimedOut
)

// The first and the last backoff of a gang that timed out. It doubles each time, and varies by a fifth so that gangs
// that timed out together do not return together.
const (
	firstBackoff = 10 * time.Second
	lastBackoff  = 5 * time.Minute
	jitter       = 0.2
)

// admissionDeadline is a gang, or the unsatisfied gangs of a group, with a time limit.
type admissionDeadline struct {
	id    string
	gangs []*gang
	// until is when it may be admitted again; zero if it did not time out.
	until time.Time
	// tries is how often it has timed out.
	tries int
}

// knownLimit is the state of one gang's time limit.
type knownLimit struct {
	uid types.UID
	// reason is gangAdmitted or timedOut, since the time of that change. message is the condition's message.
	reason  string
	since   time.Time
	tries   int
	message string
}

// holdBack finds the gangs in a backoff, and keeps them from being admitted and placed.
func (s *session) holdBack() {
	s.limits = map[string]*admissionDeadline{}
	for _, g := range s.gangs {
		s.limitOf(g)
	}
	now := time.Now()
	held := false
	for _, l := range s.limits {
		l.until = l.backoffEnds(now)
	}
	s.endEarly()
	for _, l := range s.limits {
		if l.until.IsZero() {
			continue
		}
		held = true
		for _, g := range l.gangs {
			message := fmt.Sprintf("another gang of its group timed out, retrying after %s", clockTime(l.until))
			if g.limit != nil && g.limit.reason == timedOut {
				message = g.limit.message
			}
			g.waits = &api.ValidateResult{Reason: timedOut, Message: message}
			g.sendBack()
		}
	}
	if held {
		s.ssn.EnqueueFirst(Name)
		s.ssn.AddJobEnqueueableFn(Name, s.mayEnter)
	}
}

// limitOf adds the gang to its group's limit, with the state of its own.
func (s *session) limitOf(g *gang) {
	if g.satisfied { // it has reached its minimum, and no other gang of its group waits for it
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
		setCondition(g.PodGroup, s.ssn.UID, TimeLimit, known.reason, known.message)
		return
	}
	dropCondition(g.PodGroup, TimeLimit)
}

// backoffEnds returns when the group's backoff ends; zero if it has none.
func (l *admissionDeadline) backoffEnds(now time.Time) time.Time {
	if l.placed() || l.inFlight() {
		return time.Time{}
	}
	var ends time.Time
	for _, g := range l.gangs {
		if g.limit == nil || g.limit.reason != timedOut {
			continue
		}
		if end := g.limit.since.Add(l.backoff()); end.After(now) && end.After(ends) {
			ends = end
		}
	}
	return ends
}

// backoff returns the length of the backoff for the number of tries.
func (l *admissionDeadline) backoff() time.Duration {
	backoff := firstBackoff
	for range min(max(l.tries, 1)-1, 10) {
		backoff = min(2*backoff, lastBackoff)
	}
	hash := fnv.New32a()
	fmt.Fprintf(hash, "%s %d", l.id, l.tries)
	return time.Duration(float64(backoff) * (1 - jitter + 2*jitter*float64(hash.Sum32()%1000)/1000))
}

// placed reports whether a member of the group has a node. Such a group never times out: a gang that is partially bound
// is completed.
func (l *admissionDeadline) placed() bool {
	return slices.ContainsFunc(l.gangs, func(g *gang) bool { return alive(g.JobInfo) > 0 })
}

// inFlight reports whether members of the group are being bound.
func (l *admissionDeadline) inFlight() bool {
	return slices.ContainsFunc(l.gangs, func(g *gang) bool { return len(g.TaskStatusIndex[api.Binding]) > 0 })
}

// mayEnter refuses admission to gangs in a backoff.
func (s *session) mayEnter(obj any) int {
	if waits := s.valid(obj); waits != nil && waits.Reason == timedOut {
		return util.Reject
	}
	return util.Abstain
}

// sendBack makes the gang wait for admission again.
func (g *gang) sendBack() { g.PodGroup.Status.Phase = scheduling.PodGroupPending }

// limitWaits times out the groups whose time has ended, and records which are admitted now. It returns when the next time ends.
func (s *session) limitWaits(now time.Time) (next time.Time) {
	limits := map[api.JobID]knownLimit{}
	for _, l := range s.limits {
		next = sooner(next, s.limitWait(l, now))
		for _, g := range l.gangs {
			if g.limit != nil {
				g.limit.tries = l.tries
				limits[g.UID] = *g.limit
			}
		}
	}
	s.memory.limits = limits
	return next
}

// limitWait returns when the group's waiting time or backoff ends.
func (s *session) limitWait(l *admissionDeadline, now time.Time) time.Time {
	switch {
	case l.placed(), slices.ContainsFunc(l.gangs, func(g *gang) bool { return s.reservations.isReserved(g.UID) }): // a gang would lose its nodes by timing out
		for _, g := range l.gangs {
			g.dropLimit()
		}
		return time.Time{}
	case l.inFlight(): // its time continues: if the bind fails after the end of it, the group times out
		return time.Time{}
	case !l.until.IsZero():
		for _, g := range l.gangs {
			g.sendBack() // a gang without requests is admitted without calling the plugin
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
	l.tries++
	s.timeOut(l, first, now.Sub(since), now)
	return now.Add(l.backoff())
}

// clock returns the shortest waiting time of the group's gangs, and the gang that was admitted first, with that time; nil if none
// is admitted.
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
		began := s.letInSince(g, now)
		if first == nil || began.Before(since) || began.Equal(since) && g.UID < first.UID {
			first, since = g, began
		}
	}
	// Resources are being released for the gang, so it gets the same time again to wait for them.
	if first != nil && len(first.TaskStatusIndex[api.Pipelined]) > 0 && first.IsPipelined() && limit < 1<<62 {
		limit *= 2
	}
	return limit, first, since
}

// letInSince returns when the gang was admitted, or now if that is not known.
func (s *session) letInSince(g *gang, now time.Time) time.Time {
	if g.limit != nil && g.limit.reason == gangAdmitted {
		return g.limit.since
	}
	s.setLimit(g, gangAdmitted, "Admitted; returns to Pending unless scheduled within its waiting time", now)
	return now
}

// setLimit starts a new time limit of the gang, and sets its condition.
func (s *session) setLimit(g *gang, reason, message string, now time.Time) {
	g.limit = &knownLimit{uid: g.PodGroup.UID, reason: reason, since: now, message: message}
	dropCondition(g.PodGroup, TimeLimit)
	setCondition(g.PodGroup, s.ssn.UID, TimeLimit, reason, message)
}

// dropLimit removes the gang's time limit.
func (g *gang) dropLimit() {
	g.limit = nil
	dropCondition(g.PodGroup, TimeLimit)
}

// timeOut times out all gangs of the group.
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
		g.sendBack()
		s.ssn.TimedOut(g.UID)
		s.ssn.RecordPodGroupEvent(g.PodGroup, v1.EventTypeWarning, timedOut, message)
	}
}

func clockTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// sooner returns the earlier of two times. The zero time means none.
func sooner(l, r time.Time) time.Time {
	if l.IsZero() || !r.IsZero() && r.Before(l) {
		return r
	}
	return l
}
