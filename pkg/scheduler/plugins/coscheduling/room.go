// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// maxRoomLooks limits how often a session compares a node or a member with the others while it looks for room for groups
// that timed out, because a tenant may have thousands of such groups.
const maxRoomLooks = 100_000

// roomLook records what sessions have found out about the room for a group in a backoff.
type roomLook struct {
	// crowded reports whether the group did not fit on the idle nodes at some time since it timed out.
	crowded bool
	// at is when a session last looked for room for the group.
	at time.Time
}

// likeMembers are members that request the same.
type likeMembers struct {
	request *api.Resource
	count   int
}

// membersOf returns the members that the minima of all gangs of the group need, the largest first. It returns false if a gang
// does not have enough pending members.
func membersOf(l *admissionDeadline, looks *int) (kinds []likeMembers, enough bool) {
	var tasks []*api.TaskInfo
	for _, g := range l.gangs {
		pending := len(g.TaskStatusIndex[api.Pending])
		*looks += pending
		if pending < int(g.MinAvailable) {
			return nil, false
		}
		if g.MinAvailable > 0 {
			tasks = append(tasks, needed(g.JobInfo)...)
		}
	}
	slices.SortStableFunc(tasks, func(a, b *api.TaskInfo) int { return compareSizes(b.InitResreq, a.InitResreq) })
	for _, task := range tasks {
		if last := len(kinds) - 1; last >= 0 && kinds[last].request.Equal(task.InitResreq, api.Zero) {
			kinds[last].count++
			continue
		}
		kinds = append(kinds, likeMembers{task.InitResreq, 1})
	}
	return kinds, true
}

// hasRoom reports whether idle nodes can take the minima of all gangs of the group. It fills one node after the other, with the
// largest members first, and checks only requests. So it may miss room for members of different sizes that only another
// arrangement would use. known is false if the session has no more looks.
func (s *session) hasRoom(l *admissionDeadline, looks *int) (room, known bool) {
	kinds, enough := membersOf(l, looks)
	if !enough {
		return false, true
	}
	for _, node := range s.ssn.Nodes {
		if len(kinds) == 0 {
			break
		}
		idle := node.Idle.Clone()
		for i := range kinds {
			if *looks++; *looks > maxRoomLooks {
				return false, false
			}
			for kind := &kinds[i]; kind.count > 0 && kind.request.LessEqual(idle, api.Zero); kind.count-- {
				idle.Sub(kind.request)
			}
		}
		kinds = slices.DeleteFunc(kinds, func(kind likeMembers) bool { return kind.count == 0 })
	}
	return len(kinds) == 0, true
}

// endEarly ends the backoff of a group that now fits on idle nodes, but did not fit in an earlier session of the
// backoff. If the group always fit on idle nodes, another cause prevented its placement, and its backoff continues.
func (s *session) endEarly(now time.Time) {
	former, looks := s.rooms, 0
	s.rooms = map[string]roomLook{}
	for _, l := range s.inBackoff(former) {
		look := former[l.id]
		if began := looks; looks < maxRoomLooks {
			room, known := s.hasRoom(l, &looks)
			if known || began == 0 {
				look.at = now // otherwise the next session begins with this group
			}
			if known && room && look.crowded {
				l.until = time.Time{}
			}
			look.crowded = look.crowded || known && !room
		}
		s.rooms[l.id] = look
	}
}

// inBackoff returns the groups in a backoff in the order in which the session looks for room for them. Namespaces take turns,
// so that the groups of one namespace do not use up all looks. In a namespace, the group that has waited longest for a look
// comes first.
func (s *session) inBackoff(former map[string]roomLook) []*admissionDeadline {
	groups := slices.DeleteFunc(slices.Collect(maps.Values(s.limits)), func(l *admissionDeadline) bool { return l.until.IsZero() })
	slices.SortFunc(groups, func(a, b *admissionDeadline) int {
		return cmp.Or(former[a.id].at.Compare(former[b.id].at), cmp.Compare(a.id, b.id))
	})
	turns, turn := map[string]int{}, map[string]int{}
	for _, l := range groups {
		namespace := l.gangs[0].Namespace
		turn[l.id] = turns[namespace]
		turns[namespace]++
	}
	slices.SortStableFunc(groups, func(a, b *admissionDeadline) int { return cmp.Compare(turn[a.id], turn[b.id]) })
	return groups
}
