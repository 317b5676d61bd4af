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
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// A gang that was let in (its PodGroup is Inqueue) has room in its queue kept for it. If it is not placed within its waiting time it is
// sent back: it is Pending again, the room is for others, and it is let in again after a backoff.
//
//	Pending --let in--> Inqueue, GangAdmitted --placed--> Running, no condition
//	   ^                   | waiting time
//	   +-- backoff -- Pending, TimedOut
//
// All gangs of a group wait and are sent back together: its time is that of the one whose time is up first. What is known is in memory, where no
// tenant can write; the condition TimeLimit of the PodGroups reports it. A new leader begins all times again.

// TimeLimit is the type of the condition that a gang with a waiting time has from when it is let in until it is placed.
const TimeLimit = framework.GangTimeLimit

// The reasons of that condition.
const (
	letIn    = "GangAdmitted"
	timedOut = framework.GangTimedOut
)

// The backoff of a gang that was sent back: from the first to the last, twice as long each time, and up to a fifth longer or shorter
// so that gangs that were sent back together do not come back together.
const (
	firstBackoff = 10 * time.Second
	lastBackoff  = 5 * time.Minute
	jitter       = 0.2
)

// limited is a group without those of its gangs that are satisfied, or a gang that is alone, that waits against a time limit.
type limited struct {
	id    string
	gangs []*gang
	// until is when it may come again; zero when it was not sent back.
	until time.Time
	// tries is how often it was sent back.
	tries int
}

// knownLimit is what is known of one gang's time limit: when it was let in or sent back, and how often it was sent back.
type knownLimit struct {
	uid types.UID
	// reason is letIn or timedOut, and since when that is so. message is what its condition says.
	reason  string
	since   time.Time
	tries   int
	message string
}

// holdBack finds the gangs that wait out a backoff, and keeps them from being let in and placed.
func (s *session) holdBack() {
	s.limits = map[string]*limited{}
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
			message := fmt.Sprintf("sent back until %s", clockTime(l.until))
			if g.limit != nil && g.limit.reason == timedOut {
				message = g.limit.message
			}
			g.waits = &api.ValidateResult{Reason: timedOut, Message: message}
			g.sendBack()
		}
	}
	if held {
		s.EnqueueFirst(Name)
		s.AddJobEnqueueableFn(Name, s.mayEnter)
	}
}

// limitOf enters the gang, with what is known of its time limit.
func (s *session) limitOf(g *gang) {
	if g.satisfied { // it waits for no minimum, and no other of its group waits for it
		g.dropLimit()
		return
	}
	l := s.limits[g.id]
	if l == nil {
		l = &limited{id: g.id}
		s.limits[g.id] = l
	}
	l.gangs = append(l.gangs, g)
	if known, ok := s.plugin.limits[g.UID]; ok && known.uid == g.PodGroup.UID {
		g.limit = &known
		l.tries = max(l.tries, known.tries)
		s.setCondition(g, TimeLimit, known.reason, known.message)
		return
	}
	g.dropCondition(TimeLimit)
}

// backoffEnds is when the backoff ends that the group waits out; zero when there is none, or it is over.
func (l *limited) backoffEnds(now time.Time) time.Time {
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

// backoff is that after as many tries.
func (l *limited) backoff() time.Duration {
	backoff := firstBackoff
	for range min(max(l.tries, 1)-1, 10) {
		backoff = min(2*backoff, lastBackoff)
	}
	hash := fnv.New32a()
	fmt.Fprintf(hash, "%s %d", l.id, l.tries)
	return time.Duration(float64(backoff) * (1 - jitter + 2*jitter*float64(hash.Sum32()%1000)/1000))
}

// placed is true if the group is not sent back, however long it waits: a member of it has a node. What is bound in part is completed.
func (l *limited) placed() bool {
	return slices.ContainsFunc(l.gangs, func(g *gang) bool { return g.alive() > 0 })
}

// isReservedFor reports whether nodes are reserved for a gang of the group: sent back, it would lose them.
func (s *session) isReservedFor(l *limited) bool {
	return slices.ContainsFunc(l.gangs, func(g *gang) bool { return s.isReserved(g.UID) })
}

// inFlight is true if members of the group are being bound.
func (l *limited) inFlight() bool {
	return slices.ContainsFunc(l.gangs, func(g *gang) bool { return len(g.TaskStatusIndex[api.Binding]) > 0 })
}

// mayEnter keeps out the gangs that wait out a backoff.
func (s *session) mayEnter(obj any) int {
	job, ok := obj.(*api.JobInfo)
	if !ok {
		return util.Abstain
	}
	if g := s.gangs[job.UID]; g != nil && g.waits != nil && g.waits.Reason == timedOut {
		return util.Reject
	}
	return util.Abstain
}

// sendBack has the gang wait to be let in.
func (g *gang) sendBack() { g.PodGroup.Status.Phase = scheduling.PodGroupPending }

// limitWaits sends the groups back whose time is up, and notes which are let in now. It returns when the next time is up.
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
	s.plugin.limits = limits
	return next
}

// limitWait returns when the group's time is up: its waiting time or its backoff.
func (s *session) limitWait(l *limited, now time.Time) time.Time {
	switch {
	case l.placed(), s.isReservedFor(l):
		for _, g := range l.gangs {
			g.dropLimit()
		}
		return time.Time{}
	case l.inFlight(): // its time goes on: if it fails after that it is sent back
		return time.Time{}
	case !l.until.IsZero():
		for _, g := range l.gangs {
			g.sendBack() // what asks for no resources is let in without being asked about
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

// clock returns the shortest waiting time of the group's gangs, and which of those that were let in waits longest, since when; nil
// when none was let in.
func (l *limited) clock(s *session, now time.Time) (limit time.Duration, first *gang, since time.Time) {
	limit = l.gangs[0].Settings.WaitingTime
	for _, g := range l.gangs {
		limit = min(limit, g.Settings.WaitingTime)
		if g.PodGroup.Status.Phase != scheduling.PodGroupInqueue {
			if g.limit != nil && g.limit.reason == letIn {
				g.dropLimit()
			}
			continue
		}
		began := s.letInSince(g, l.tries, now)
		if first == nil || began.Before(since) || began.Equal(since) && g.UID < first.UID {
			first, since = g, began
		}
	}
	// The room that is being made for it is its own: it has as long again until that is free.
	if first != nil && len(first.TaskStatusIndex[api.Pipelined]) > 0 && first.IsPipelined() && limit < 1<<62 {
		limit *= 2
	}
	return limit, first, since
}

// letInSince is when the gang was let in, which is now if that is not known.
func (s *session) letInSince(g *gang, tries int, now time.Time) time.Time {
	if g.limit != nil && g.limit.reason == letIn {
		return g.limit.since
	}
	s.setLimit(g, letIn, fmt.Sprintf("time-outs: %d; let in, and sent back if it is not placed within its waiting time", tries), now)
	return now
}

// setLimit begins another time of the gang, which its condition reports.
func (s *session) setLimit(g *gang, reason, message string, now time.Time) {
	g.limit = &knownLimit{uid: g.PodGroup.UID, reason: reason, since: now, message: message}
	g.dropCondition(TimeLimit)
	s.setCondition(g, TimeLimit, reason, message)
}

// dropLimit ends the gang's time.
func (g *gang) dropLimit() {
	g.limit = nil
	g.dropCondition(TimeLimit)
}

// timeOut sends all gangs of the group back.
func (s *session) timeOut(l *limited, first *gang, waited time.Duration, now time.Time) {
	whose := ""
	if len(l.gangs) > 1 {
		whose = fmt.Sprintf(" of its group, whose gang %s", first.UID)
	}
	wait, _ := s.Wait(first.UID)
	message := brief.Text(fmt.Sprintf("time-outs: %d; sent back until %s, the waiting time%s was up after %s, for: %s: %s",
		l.tries, clockTime(now.Add(l.backoff())), whose, waited.Round(time.Second), wait.Reason, wait.Message))
	for _, g := range l.gangs {
		s.setLimit(g, timedOut, message, now)
		g.sendBack()
		s.TimedOut(g.UID)
		s.RecordPodGroupEvent(g.PodGroup, v1.EventTypeWarning, timedOut, message)
	}
}

func clockTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// sooner is the earlier of two times, of which a zero one is none.
func sooner(l, r time.Time) time.Time {
	if l.IsZero() || !r.IsZero() && r.Before(l) {
		return r
	}
	return l
}
