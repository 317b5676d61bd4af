// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"fmt"
	"time"
)

// DelayKind is the reason of a Delay, as shown in events and conditions.
type DelayKind string

const (
	// StepWaits means that a step runs long, but is still within its timeout.
	StepWaits DelayKind = "PreBindPending"
	// PreBindTimedOut means that a step timed out or was cancelled, and cannot be rolled back because it has not
	// returned.
	PreBindTimedOut DelayKind = "PreBindTimedOut"
	// RollbackStuck means that a rollback keeps failing, or does not return.
	RollbackStuck DelayKind = "RollbackStuck"
	// BindWaits means that a member passed its steps and is not bound, although every other member has passed or failed.
	// The cause may be that the gang's minimum cannot be read, that the member's Binding hangs or fails, or that it is
	// not known whether the pod is bound.
	BindWaits DelayKind = "BindPending"
)

// Delay describes a long wait of a member.
type Delay struct {
	Kind         DelayKind
	Plugin, Node string
	// Since is when the step, the first try of the rollback, or the barrier began. It does not change while the delay
	// lasts.
	Since time.Time
	// Err is the last failure of the rollback, or of the call that the bind waits for; nil if no call has failed.
	Err error
	// Again reports whether the same wait has been reported before, without this Err.
	Again bool
}

// String describes the delay for users. The text contains nothing that changes while the delay lasts, such as its age.
func (d Delay) String() string {
	since := d.Since.UTC().Format(time.RFC3339)
	switch d.Kind {
	case StepWaits:
		return fmt.Sprintf("pre-bind plugin %s has been running on node %s since %s", d.Plugin, d.Node, since)
	case PreBindTimedOut:
		return fmt.Sprintf("pre-bind plugin %s on node %s timed out or was cancelled, and has not returned (running since %s); the pod cannot be rescheduled until it returns; if it never returns, restart the scheduler", d.Plugin, d.Node, since)
	}
	if d.Kind == BindWaits {
		how := ""
		if d.Err != nil {
			how = fmt.Sprintf(": %v", d.Err)
		}
		return fmt.Sprintf("binding to node %s pending since %s%s; resources stay reserved until the outcome is known", d.Node, since, how)
	}
	if d.Err == nil {
		return fmt.Sprintf("rollback of pre-bind plugin %s on node %s has not finished since %s: it waits for other rollbacks of the gang, or hangs; the pod's resources stay reserved until it does; if it never finishes, restart the scheduler", d.Plugin, d.Node, since)
	}
	return fmt.Sprintf("rollback of pre-bind plugin %s on node %s failing since %s: %v; retrying, the pod's resources stay reserved", d.Plugin, d.Node, since, d.Err)
}

// delayOf returns the delay of a member that has waited for stuckAfter; nil for any other member. While draining is
// set, any wait counts as a delay. It is called with mu held.
func (s *roster) delayOf(m *member) *Delay {
	d := &Delay{Node: m.Node, Since: m.since}
	waits := m.since
	switch {
	case m.running && m.state == statePreparing:
		d.Kind, d.Plugin = StepWaits, m.Steps[m.begun-1].Plugin
	case m.running && m.state == stateFailed:
		d.Kind, d.Plugin, waits = PreBindTimedOut, m.Steps[m.begun-1].Plugin, m.waitsFrom
	case m.state == stateFailed && m.owed() >= 0:
		d.Kind, d.Plugin, d.Err, waits = RollbackStuck, m.Steps[m.owed()].Plugin, m.undoErr, m.waitsFrom
	case m.state == statePassed && !s.ready.IsZero():
		d.Kind, d.Err, d.Since, waits = BindWaits, s.gateErr, s.ready, s.ready
	case m.state == stateBinding && !m.holds:
		d.Kind, d.Err, d.Since, waits = BindWaits, m.bindErr, s.ready, s.ready
	default:
		return nil
	}
	if time.Since(waits) < s.stuckAfter && !s.draining {
		return nil
	}
	return d
}

// setReady records that every member has passed its steps or failed. After stuckAfter, the returned alarm reports the
// members that are still not bound, unless it is stopped before.
func (s *roster) setReady() *alarm {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = time.Now()
	return after(s.stuckAfter, func() {
		for _, m := range s.members {
			s.report(m)
		}
	})
}

// report reports a long wait of the member to the Observer, and later the end of that wait. While the same wait lasts,
// it is reported once more if it had no Err at first and now has one, but not for further errors.
func (s *roster) report(m *member) {
	s.reporting.Lock()
	defer s.reporting.Unlock()
	s.mu.Lock()
	before, now, cause := m.reported, s.delayOf(m), m.err
	m.reported = now
	s.mu.Unlock()
	switch {
	case now == nil && before != nil:
		s.observer.DelayEnded(m.Member, cause)
	case now == nil:
	case before == nil || before.Kind != now.Kind || before.Plugin != now.Plugin:
		s.observer.Delayed(m.Member, *now)
	case before.Err == nil && now.Err != nil:
		now.Again = true
		s.observer.Delayed(m.Member, *now)
	}
}

// reportErr reports the member's wait once more, with its first Err, if the wait has been reported without one.
func (s *roster) reportErr(m *member) {
	s.mu.Lock()
	reported := m.reported != nil && m.reported.Err == nil
	s.mu.Unlock()
	if reported {
		s.report(m)
	}
}

// settleDelay records that the member is known to be bound, so that its wait is no longer reported.
func (s *roster) settleDelay(m *member) {
	s.reporting.Lock() // waits for a report that has begun
	defer s.reporting.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	m.holds = true
}

// reportEnd reports that the member's wait has ended, if the wait was reported. A failed member may then wait for the
// rollback of another of its steps. That wait is reported, too, once it has lasted for stuckAfter.
func (s *roster) reportEnd(m *member) {
	s.mu.Lock()
	reported, former := m.reported != nil, m.stuck
	if reported {
		m.stuck, m.waitsFrom = nil, time.Now()
	}
	s.mu.Unlock()
	if !reported {
		return
	}
	former.stop()
	s.report(m)
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.state == stateFailed && m.owed() >= 0 {
		m.stuck = after(s.stuckAfter, func() { s.report(m) })
	}
}

// reportUnfinished reports the waits of all members, however short, because Abort is about to abandon the members.
func (s *roster) reportUnfinished() {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	for _, m := range s.members {
		s.report(m)
	}
}

// firstDelay describes the delay of the first delayed member; empty if no member is delayed. It is called with mu held.
func (s *roster) firstDelay() string {
	for _, m := range s.members {
		if d := s.delayOf(m); d != nil {
			return fmt.Sprintf(", pod %s: %v", m.key(), d)
		}
	}
	return ""
}
