// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/plugins/util"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// enqueueable votes against gangs that must lie in one group and that none could ever hold, whatever is released: once let in,
// their minResources would count as promised, and gangs that fit would wait for them.
func (s *session) enqueueable(obj any) int {
	job, ok := obj.(*api.JobInfo)
	if !ok {
		return util.Abstain
	}
	w := s.requests[job.UID]
	if w == nil { // a Volcano Job has no pods before it is let in
		if said, err := sayingOf(job); err == nil {
			if read, err := s.requestOf(job, said, s.forest); err == nil {
				w = &read
			}
		}
	}
	groups := s.groupsFor(w)
	if len(groups) == 0 {
		return util.Abstain // allocate tells why
	}
	message := s.lessThanMinResources(job, groups)
	if message == "" {
		message, _ = s.noRoomForMembers(job, groups)
	}
	if message == "" {
		return util.Abstain
	}
	s.ssn.ExplainWait(job.UID, framework.Wait{Reason: framework.NotEnqueued, Message: mustLieInOne + message})
	return util.Reject
}

const mustLieInOne = "the gang must lie in one node group, and "

// groupsFor are the groups one of which a gang with the request must lie in; none if it need not, or none is there.
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

// lessThanMinResources says what the largest of the groups lacks of the job's minResources; nothing if one has them.
func (s *session) lessThanMinResources(job *api.JobInfo, groups []*topology.Group) string {
	request := job.GetMinResources()
	var largest *emptyGroup
	var path string
	var missing []string
	for _, group := range groups {
		empty := s.empty.of(group)
		short := s.lacking(empty, request)
		if len(short) == 0 {
			return ""
		}
		if name := v1.ResourceName(short[0]); largest == nil || largest.total.Get(name) < empty.total.Get(name) {
			largest, path, missing = empty, group.Path(), short
		}
	}
	var parts []string
	for _, name := range missing[:min(len(missing), maxListed)] {
		parts = append(parts, fmt.Sprintf("%s %s of %s", name, framework.AmountOf(largest.total, name), framework.AmountOf(request, name)))
	}
	return fmt.Sprintf("the largest of %d has less than its minResources, even when idle: %s has %s", len(groups), path, strings.Join(parts, ", "))
}

// noRoomForMembers says which members the group that takes the most of them does not take; nothing if one may take as many as the
// job's minimum needs. It is not known before so many are there.
func (s *session) noRoomForMembers(job *api.JobInfo, groups []*topology.Group) (message string, known bool) {
	w := s.empty.wanted(job.TaskStatusIndex[api.Pending], s.neededAtOnce(job))
	if w == nil {
		return "", false
	}
	var best *topology.Group
	var most roomFor
	for _, group := range groups {
		room := w.roomIn(s.empty.of(group))
		if room.members >= w.needed {
			return "", true
		}
		if best == nil || room.members > most.members {
			best, most = group, room
		}
	}
	return fmt.Sprintf("none of %d has room for the %d members needed, even when idle: %s %s",
		len(groups), w.needed, best.Path(), w.describe(most, s.empty.of(best))), true
}

// lacking names, in order, the resources of which the request is for more than the group has. Some that no node has are the quota's, as
// limits.cpu is.
func (s *session) lacking(group *emptyGroup, request *api.Resource) []string {
	_, short := request.LessEqualWithResourcesName(group.total, api.Zero)
	slices.Sort(short)
	return slices.DeleteFunc(short, func(name string) bool { return s.ssn.TotalResource.Get(v1.ResourceName(name)) == 0 })
}
