// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/internal/keybytes"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// RefuseAdmission implements framework.AdmissionVoter. It refuses gangs that must be in one node group and that no node
// group could hold, even if all pods ended. If such a gang were admitted, its minResources would count against its namespace's limit, and other gangs of the
// namespace would wait.
func (s *session) RefuseAdmission(job *api.JobInfo) *framework.PendingReason {
	w := s.requests[job.UID]
	if w == nil { // the job has no pods: a Volcano Job gets pods only after its admission
		if said, err := sayingOf(job); err == nil {
			if read, err := s.settings.requestOf(job, said, s.forest); err == nil {
				w = &read
			}
		}
	}
	groups := s.groupsFor(w)
	if len(groups) == 0 {
		return nil // the gang may use any nodes; or no node group exists, and action allocate reports that
	}
	message := s.lessThanMinResources(job, w, groups)
	if message == "" {
		message, _ = s.noRoomForMembers(job, w, groups)
	}
	if message == "" {
		return nil
	}
	return &framework.PendingReason{Reason: framework.NotEnqueued, Message: message}
}

// groupsFor returns the node groups that may hold a gang with the request. It returns none if the gang need not be in
// one node group, or if no such node group exists.
func (s *session) groupsFor(w *request) []*topology.Group {
	if w == nil || w.mode != modeRequired {
		return nil
	}
	groups := s.forest.At(w.level)
	if len(w.clusters) > 0 {
		groups = slices.DeleteFunc(slices.Clone(groups), func(g *topology.Group) bool { return !slices.Contains(w.clusters, g.At(0).Name) })
	}
	return groups
}

// key returns the start of the key under which a vote on admission is cached. It consists of what the vote compares
// with the node groups (the parameter on: "minResources" or "members"), and of the gang's level and allowed clusters.
func (w *request) key(on string) []byte {
	return fmt.Appendf(nil, "%s %d %q ", on, w.level, w.clusters)
}

// lessThanMinResources returns a message about the minResources that even the largest of the groups lacks; empty if
// one of the groups suffices. Resources that no node has, such as limits.cpu, belong to quotas and are ignored.
func (s *session) lessThanMinResources(job *api.JobInfo, w *request, groups []*topology.Group) string {
	e := s.emptyGroups()
	request := e.appendAmounts(nil, job.GetMinResources())
	return e.vote(keybytes.Float(w.key("minResources"), request...), func() string { return e.largestLacks(e.resource(request), groups) })
}

func (e *emptyGroups) largestLacks(request *api.Resource, groups []*topology.Group) string {
	var largest *emptyGroup
	var path string
	var missing []string
	seen := map[*emptyGroup]bool{}
	for _, group := range groups {
		empty := e.of(group)
		if seen[empty] {
			continue
		}
		seen[empty] = true
		_, short := request.LessEqualWithResourcesName(empty.total, api.Zero)
		if len(short) == 0 {
			return ""
		}
		slices.Sort(short)
		if name := v1.ResourceName(short[0]); largest == nil || largest.total.Get(name) < empty.total.Get(name) {
			largest, path, missing = empty, group.Path(), short
		}
	}
	var has, asks []string
	for _, name := range missing[:min(len(missing), maxListed)] {
		has = append(has, name+" "+framework.AmountOf(largest.total, name))
		asks = append(asks, name+" "+framework.AmountOf(request, name))
	}
	rank := fmt.Sprintf("the largest of %d", len(groups))
	if len(groups) == 1 {
		rank = "the only one allowed"
	}
	return fmt.Sprintf("no node group is large enough: %s, %s, has %s in total; minResources asks for %s", path, rank, strings.Join(has, ", "), strings.Join(asks, ", "))
}

// noRoomForMembers returns a message about the members that do not fit into the best of the groups; empty if a group
// may take all members that the minimum needs. known is false if the job has fewer pods than its minimum needs, or
// needs none.
func (s *session) noRoomForMembers(job *api.JobInfo, w *request, groups []*topology.Group) (message string, known bool) {
	e, needed := s.emptyGroups(), s.neededAtOnce(job)
	counts := e.classesOf(job.TaskStatusIndex[api.Pending], needed)
	if counts == nil {
		return "", false
	}
	key := counts.appendTo(fmt.Appendf(w.key("members"), "%d ", needed))
	return e.vote(key, func() string { return e.wanted(counts, needed).bestLacks(groups) }), true
}

func (w *wantedMembers) bestLacks(groups []*topology.Group) string {
	var best *topology.Group
	var most roomFor
	seen := map[*emptyGroup]bool{}
	for _, group := range groups {
		empty := w.of(group)
		if seen[empty] {
			continue
		}
		seen[empty] = true
		room := w.roomIn(empty)
		if room.members >= w.needed {
			return ""
		}
		if best == nil || room.members > most.members {
			best, most = group, room
		}
	}
	pods, limit := brief.Count(w.needed, "pod"), w.describe(most, w.of(best))
	if len(groups) == 1 {
		return fmt.Sprintf("the only allowed node group, %s, does not fit the %s needed, even when idle: it %s", best.Path(), pods, limit)
	}
	return fmt.Sprintf("none of %d node groups fits the %s needed, even when idle: %s %s", len(groups), pods, best.Path(), limit)
}
