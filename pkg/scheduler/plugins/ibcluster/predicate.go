// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// predicate refuses nodes outside of the groups that a required gang may lie in, and outside of the one it is in; for a
// preferred gang those outside of the clusters it lists. It is what keeps actions that know nothing of node groups from
// taking a member out.
func (s *session) predicate(task *api.TaskInfo, node *api.NodeInfo) error {
	w := s.requests[task.Job]
	if w == nil || !w.binds() {
		return nil
	}
	p := s.scopeOf(s.ssn.Jobs[task.Job])
	if p.admits(s.forest.Narrowest(node.Name)) {
		return nil
	}
	return api.NewFitErrWithStatus(task, node, p.verdict...)
}

// admits is true if members may go on a node whose narrowest group it is.
func (p *gangScope) admits(narrowest *topology.Group) bool {
	if p.mode == modePreferred {
		cluster := narrowest.At(0)
		return cluster != nil && slices.Contains(p.clusters, cluster.Name)
	}
	group := narrowest.At(p.level)
	return group != nil && (p.allowed == nil || p.allowed[group])
}

// verdictElsewhere is what the predicate says of nodes outside of the candidates. They are beyond the help of evictions,
// so that preempt, reclaim and nominations stay away from them. Only where the gang is because of what this very session
// placed, and may take back, they are not: what allocate wrote down then must not bind the actions after it.
func (p *gangScope) verdictElsewhere() []*api.Status {
	status := &api.Status{Code: api.UnschedulableAndUnresolvable, Plugin: Name, Reason: "node(s) outside of the groups its gang may lie in"}
	switch {
	case p.mode == modePreferred:
		return []*api.Status{status}
	case p.currentGroup != nil:
		status.Reason = "node(s) outside of group " + p.currentGroup.Path() + ", where its gang is"
	case p.outsideGroups:
		status.Reason = "its gang is on node(s) outside of groups"
	case p.action != "" && len(p.candidates) == 1:
		status.Reason = "node(s) outside of group " + p.candidates[0].Path() + ", which " + p.action + " makes room in for its gang"
	}
	if p.currentGroup != nil && !p.settled && p.action == "" {
		status.Code = api.Unschedulable
	}
	return []*api.Status{status}
}
