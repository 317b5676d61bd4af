// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"cmp"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// maxRoomSteps limits the work of a session that searches room for gang groups that timed out. A tenant may have
// thousands of such gang groups. A step compares a node with members of equal requests, or counts a pending member.
const maxRoomSteps = 100_000

// roomCheck records whether sessions found room on nodes for a gang group in a backoff.
type roomCheck struct {
	// crowded reports whether, in some session of the backoff, the gang group lacked pending members or did not fit
	// into the idle resources of nodes. So a tenant can end the backoff of its own gang by deleting a member and
	// creating it again. It can also create the PodGroup again. Other tenants lose nothing, because the backoff only
	// helps other gangs of the same namespace to be admitted.
	crowded bool
	// idle are the idle resources of all nodes at the first check of the backoff.
	idle *api.Resource
	// since is the number of the session since which the gang group waits for a check: the session after its last
	// check, or else the session in which its backoff began. So a gang group whose backoffs begin again and again comes
	// after the gang groups that have waited longer for a check.
	since int
}

// roomChecks are the checks for room of all gang groups in a backoff.
type roomChecks struct {
	// sessions is the number of sessions so far.
	sessions int
	// groups has the checks by the ID of the gang group.
	groups map[string]roomCheck
	// namespaces has the number of the session since which the gang groups of a namespace wait for a check of one of them.
	namespaces map[string]int
}

// likeMembers is a number of members with equal requests.
type likeMembers struct {
	request *api.Resource
	count   int
}

// membersOf returns the members that the minima of all gangs of the gang group need, those with the largest requests
// first. It returns false if a gang does not have enough pending members. It adds the number of pending members to
// steps, the number of steps of the session (maxRoomSteps).
func membersOf(l *admissionDeadline, steps *int) (kinds []likeMembers, enough bool) {
	var tasks []*api.TaskInfo
	for _, g := range l.gangs {
		*steps += len(g.TaskStatusIndex[api.Pending])
		members := needed(g.JobInfo)
		if len(members) < int(g.MinAvailable) {
			return nil, false
		}
		tasks = append(tasks, members[:g.MinAvailable]...) // also of a gang with roles, of which needed returns all members
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

// idleResources returns the idle resources of all nodes that take pods.
func (s *session) idleResources() *api.Resource {
	sum := api.EmptyResource()
	for _, node := range s.ssn.Nodes {
		if healthy(node) {
			sum.Add(node.Idle)
		}
	}
	return sum
}

// becameIdle reports whether more resources are idle now than before, by at least the request. The number of pods does not
// count, because a few large pods may have made room for many small ones. So becameIdle returns false for pods that
// request nothing else.
func becameIdle(before, now, request *api.Resource) bool {
	requested := false
	for _, name := range request.ResourceNames() {
		if name == v1.ResourcePods {
			continue
		}
		if now.Get(name)-before.Get(name) < request.Get(name) {
			return false
		}
		requested = true
	}
	return requested
}

// hasRoom reports whether the minima of all gangs of the gang group fit into the idle resources of nodes. It fills one
// node after the other, with the largest members first, and compares only requests. So it may miss room for members of
// different sizes that only another arrangement would use. steps counts the steps of the session. known is false if
// steps exceeds maxRoomSteps. request is the sum of the members' requests if there is room.
func (s *session) hasRoom(l *admissionDeadline, steps *int) (request *api.Resource, room, known bool) {
	kinds, enough := membersOf(l, steps)
	if !enough {
		return nil, false, true
	}
	request = api.EmptyResource()
	for _, node := range s.ssn.Nodes {
		if len(kinds) == 0 {
			break
		}
		if !healthy(node) {
			continue
		}
		idle, copied := node.Idle, false // most nodes are full, and need no copy
		for i := range kinds {
			if *steps++; *steps > maxRoomSteps {
				return nil, false, false
			}
			for kind := &kinds[i]; kind.count > 0 && kind.request.LessEqual(idle, api.Zero); kind.count-- {
				if !copied {
					idle, copied = idle.Clone(), true
				}
				idle.Sub(kind.request)
				request.Add(kind.request)
			}
		}
		kinds = slices.DeleteFunc(kinds, func(kind likeMembers) bool { return kind.count == 0 })
	}
	return request, len(kinds) == 0, true
}

// endEarly ends the backoff of a gang group that now fits into the idle resources of nodes. The gang group must have
// lacked room in an earlier session of the backoff. If it fitted in all of them, another cause prevented its placement,
// such as a node selector, the network or its queue. Then its backoff ends when as many resources have become idle as it
// requests.
func (s *session) endEarly() {
	steps := 0
	groups := s.inBackoff()
	if len(groups) == 0 {
		return
	}
	idle := s.idleResources()
	for _, l := range groups {
		if steps >= maxRoomSteps {
			return
		}
		check, began := s.rooms.groups[l.id], steps
		if check.idle == nil {
			check.idle = idle
		}
		request, room, known := s.hasRoom(l, &steps)
		if known || began == 0 {
			check.since = s.rooms.sessions + 1
			s.rooms.namespaces[l.namespace()] = check.since
		}
		if known && room && (check.crowded || becameIdle(check.idle, idle, request)) {
			l.until = time.Time{}
		}
		check.crowded = check.crowded || known && !room
		s.rooms.groups[l.id] = check
	}
}

// inBackoff returns the gang groups in a backoff, in the order in which the session searches room for them on nodes. It
// removes all others from s.rooms. Namespaces take turns, so that the gang groups of one namespace do not use up all
// steps (maxRoomSteps), and the namespace that waits for longest begins. In a namespace, the gang group that waits for
// longest comes first.
func (s *session) inBackoff() []*admissionDeadline {
	groups := slices.DeleteFunc(slices.Collect(maps.Values(s.limits)), func(l *admissionDeadline) bool { return l.until.IsZero() })
	former := s.rooms
	s.rooms = roomChecks{sessions: former.sessions + 1, groups: map[string]roomCheck{}, namespaces: map[string]int{}}
	for _, l := range groups {
		check := former.groups[l.id]
		check.since = cmp.Or(check.since, s.rooms.sessions)
		s.rooms.groups[l.id] = check
		s.rooms.namespaces[l.namespace()] = cmp.Or(former.namespaces[l.namespace()], s.rooms.sessions)
	}
	slices.SortFunc(groups, func(a, b *admissionDeadline) int {
		return cmp.Or(s.rooms.groups[a.id].since-s.rooms.groups[b.id].since, cmp.Compare(a.id, b.id))
	})
	turns, turn := map[string]int{}, map[string]int{}
	for _, l := range groups {
		turn[l.id] = turns[l.namespace()]
		turns[l.namespace()]++
	}
	slices.SortStableFunc(groups, func(a, b *admissionDeadline) int {
		return cmp.Or(turn[a.id]-turn[b.id], s.rooms.namespaces[a.namespace()]-s.rooms.namespaces[b.namespace()])
	})
	return groups
}

// namespace returns the namespace that the checks of the gang group count against: the first in alphabetical
// order, if its gangs are in several.
func (l *admissionDeadline) namespace() string {
	return slices.MinFunc(l.gangs, func(a, b *gang) int { return cmp.Compare(a.Namespace, b.Namespace) }).Namespace
}
