// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// maxRoomLooks limits how many nodes a session checks for groups that timed out, because a tenant may have thousands
// of such groups.
const maxRoomLooks = 100_000

// hasRoom reports whether idle nodes can take the minima of all gangs of the group. It assumes that each member
// requests as much of each resource as any member of the group does. known is false if the session has checked
// maxRoomLooks nodes.
func (s *session) hasRoom(l *admissionDeadline, looks *int) (room, known bool) {
	largest, missing := api.EmptyResource(), 0
	for _, g := range l.gangs {
		pending := g.TaskStatusIndex[api.Pending]
		if len(pending) < int(g.MinAvailable) {
			return false, true
		}
		missing += int(g.MinAvailable)
		for _, task := range pending {
			largest.SetMaxResource(task.InitResreq)
		}
	}
	for _, node := range s.ssn.Nodes {
		if *looks++; *looks > maxRoomLooks {
			return false, false
		}
		if missing <= 0 {
			break
		}
		if !largest.LessEqual(node.Idle, api.Zero) {
			continue
		}
		for idle := node.Idle.Clone(); missing > 0 && largest.LessEqual(idle, api.Zero); missing-- {
			idle.Sub(largest)
		}
	}
	return missing <= 0, true
}

// endEarly ends the backoff of a group that now fits on idle nodes, but did not fit in an earlier session of the
// backoff. If the group always fit on idle nodes, another cause prevented its placement, and its backoff continues.
func (s *session) endEarly() {
	crowded, looks := map[string]bool{}, 0
	for id, l := range s.limits {
		if l.until.IsZero() {
			continue
		}
		room, known := s.hasRoom(l, &looks)
		if crowded[id] = s.crowded[id] || known && !room; known && room && crowded[id] {
			l.until = time.Time{}
		}
	}
	s.crowded = crowded
}
