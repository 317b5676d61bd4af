// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// predicate refuses nodes outside of the node groups in which a gang with mode required may be placed. For a gang
// with mode preferred, it refuses nodes outside of the clusters that the gang lists. So actions that do not use node
// groups cannot place a member on such a node.
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

// admits reports whether members may be placed on a node with the given narrowest node group.
func (p *gangScope) admits(narrowest *topology.Group) bool {
	if p.mode == modePreferred {
		cluster := narrowest.At(0)
		return cluster != nil && slices.Contains(p.clusters, cluster.Name)
	}
	group := narrowest.At(p.level)
	return group != nil && (p.allowed == nil || p.allowed[group])
}

// verdictElsewhere returns the predicate's result for nodes on which no member of the gang may be placed. Usually its
// code says that evictions do not help, so that preempt, reclaim and nominations avoid these nodes. The code is
// Unschedulable if only placements of this session restrict the gang. These placements may be reverted, and later actions may
// then use the nodes.
func (p *gangScope) verdictElsewhere() []*api.Status {
	status := &api.Status{Code: api.UnschedulableAndUnresolvable, Plugin: Name, Reason: "node(s) outside of the node groups allowed for the gang"}
	switch {
	case p.mode == modePreferred:
		return []*api.Status{status}
	case p.currentGroup != nil:
		status.Reason = "node(s) outside of node group " + p.currentGroup.Path() + ", where the gang's pods are"
	case p.outsideGroups:
		status.Reason = "node(s) not usable while the gang's pods run on nodes outside of node groups; delete these pods, or label their nodes"
	}
	if p.currentGroup != nil && !p.settled {
		status.Code = api.Unschedulable
	}
	return []*api.Status{status}
}
