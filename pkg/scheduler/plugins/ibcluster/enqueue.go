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

// enqueueable votes against gangs that must lie in one group and ask for more than any of them has, whatever is released:
// once let in, their minResources would count as promised, and gangs that fit would wait for them.
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
	if w == nil || w.mode != modeRequired {
		return util.Abstain
	}
	groups := s.forest.At(w.level)
	if len(w.clusters) > 0 {
		groups = slices.DeleteFunc(slices.Clone(groups), func(g *topology.Group) bool { return !slices.Contains(w.clusters, g.At(0).Name) })
	}
	if len(groups) == 0 {
		return util.Abstain // allocate tells why
	}
	request := job.GetMinResources()
	var largest *topology.Group
	var missing []string
	for _, group := range groups {
		short := s.lacking(group, request)
		if len(short) == 0 {
			return util.Abstain
		}
		if largest == nil || s.capacity(largest).Get(v1.ResourceName(short[0])) < s.capacity(group).Get(v1.ResourceName(short[0])) {
			largest, missing = group, short
		}
	}
	slices.Sort(missing)
	var parts []string
	for _, name := range missing[:min(len(missing), maxListed)] {
		parts = append(parts, fmt.Sprintf("%s %s of %s", name, framework.AmountOf(s.capacity(largest), name), framework.AmountOf(request, name)))
	}
	s.ssn.ExplainWait(job.UID, framework.Wait{Reason: framework.NotEnqueued, Message: fmt.Sprintf(
		"the gang must lie in one node group, and the largest of %d has less than its minResources, even when idle: %s has %s",
		len(groups), largest.Path(), strings.Join(parts, ", "))})
	return util.Reject
}

// lacking names the resources of which the request is for more than the group has. Some that no node has are the quota's, as
// limits.cpu is.
func (s *session) lacking(group *topology.Group, request *api.Resource) []string {
	_, short := request.LessEqualWithResourcesName(s.capacity(group), api.Zero)
	return slices.DeleteFunc(short, func(name string) bool { return s.ssn.TotalResource.Get(v1.ResourceName(name)) == 0 })
}

// capacity is what the group's nodes have, whoever uses it.
func (s *session) capacity(group *topology.Group) *api.Resource {
	if known, ok := s.capacities[group]; ok {
		return known
	}
	sum := api.EmptyResource()
	for _, name := range group.Nodes {
		if node := s.ssn.Nodes[name]; node != nil {
			sum.Add(node.Allocatable)
		}
	}
	s.capacities[group] = sum
	return sum
}
