// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// gangScope is the set of node groups in which the pending members of a gang may currently be placed.
type gangScope struct {
	*request
	// candidates are the node groups at the gang's level that may hold the gang, sorted by path. allowed is the same
	// as a set; nil if all node groups of the level are candidates.
	candidates []*topology.Group
	allowed    map[*topology.Group]bool
	// refused are the node groups of the level that are not candidates, with the reasons.
	refused []refusal
	// currentGroup is the node group at the gang's level that holds its placed members, or most of them. It is nil if
	// no member is placed in a node group.
	currentGroup *topology.Group
	// outsideGroups reports whether members are placed, but only on nodes that are in no node group.
	outsideGroups bool
	// splitDescription says where settled members are, if they are in several node groups or partly outside of node
	// groups; otherwise empty. Settled members are bound, or being bound.
	splitDescription string
	// settled reports whether a member was placed before this session or is handed over to be bound. currentGroup can
	// then no longer change.
	settled bool
	// members counts the placed members in each node group of every level. nominated counts, in each node group, the
	// pending members that have a nominated node there.
	members, nominated map[*topology.Group]int
	// evicting reports whether this gangScope is valid in actions that evict pods, or else in all other actions.
	evicting bool
	// verdict is the predicate's result for each node on which no member of the gang may be placed.
	verdict []*api.Status
	// key identifies the plugin's filter results for the job. If two gangScopes of a job have equal keys, the filter
	// results are equal for every node.
	key string
}

// maxListed limits how many node groups or resources a message lists.
const maxListed = 4

type refusal struct {
	groups []*topology.Group
	reason string
}

// placed are the statuses of members that have a node, including members placed in this session. A member that is being
// deleted does not count, because its replacement may be placed in another node group with the gang.
var placed = []api.TaskStatus{api.Allocated, api.Pipelined, api.Binding, api.Bound, api.Running}

// scopeOf returns the node groups in which the running action may place the job's members. The job's annotations must have been
// parsed: it needs an entry in the map requests.
func (s *session) scopeOf(job *api.JobInfo) *gangScope {
	evicting := framework.MakesRoom(s.ssn)
	s.mu.RLock()
	p := s.scopes[job.UID]
	s.mu.RUnlock()
	if p != nil && p.evicting == evicting {
		return p
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p = s.scopes[job.UID]; p == nil || p.evicting != evicting {
		p = s.newScope(job, evicting)
		s.scopes[job.UID] = p
	}
	return p
}

func (s *session) newScope(job *api.JobInfo, evicting bool) *gangScope {
	p := &gangScope{
		request: s.requests[job.UID], evicting: evicting,
		members: map[*topology.Group]int{}, nominated: map[*topology.Group]int{},
	}
	p.candidates = s.forest.At(p.level)
	s.locate(p, job)
	if len(p.clusters) > 0 {
		p.restrict(func(g *topology.Group) bool { return slices.Contains(p.clusters, g.At(0).Name) },
			"not listed in annotation "+ClustersAnnotation)
	}
	s.restrictToAffinityGroup(p, job)
	s.restrictToCurrentGroup(p)
	if len(p.refused) > 0 {
		p.allowed = make(map[*topology.Group]bool, len(p.candidates))
		for _, g := range p.candidates {
			p.allowed[g] = true
		}
	}
	p.verdict = p.verdictElsewhere()
	p.key = p.keyFor(job)
	return p
}

// keyFor returns a key that contains everything that decides the plugin's filter results for the job.
func (p *gangScope) keyFor(job *api.JobInfo) string {
	var key strings.Builder
	fmt.Fprintf(&key, "%s %d %s", job.UID, p.verdict[0].Code, p.verdict[0].Reason)
	if p.allowed != nil {
		key.WriteString(" only in")
		for _, g := range p.candidates {
			key.WriteString(" " + strconv.Quote(g.Path()))
		}
	}
	return key.String()
}

// locate sets the fields of p that say in which node groups the job's members are placed or nominated.
func (s *session) locate(p *gangScope, job *api.JobInfo) {
	settled, outside := map[*topology.Group]int{}, map[string]bool{}
	for _, status := range placed {
		for _, task := range job.TaskStatusIndex[status] {
			if p.evicting && s.tentative(job, task) {
				continue
			}
			group := s.forest.Narrowest(task.NodeName)
			if group.At(p.level) == nil {
				outside[task.NodeName] = true
			}
			p.count(group)
			if status != api.Allocated && status != api.Pipelined {
				p.settled = true
				settled[group.At(p.level)]++
			}
		}
	}
	for _, task := range job.TaskStatusIndex[api.Pending] {
		for g := s.forest.Narrowest(task.Pod.Status.NominatedNodeName); g != nil; g = g.Parent {
			p.nominated[g]++
		}
	}
	groups := s.forest.At(p.level)
	p.currentGroup = most(groups, p.members)
	p.outsideGroups = p.currentGroup == nil && len(outside) > 0
	if len(settled) > 1 {
		p.splitDescription = list(groups, settled)
		if len(outside) > 0 {
			p.splitDescription += " and on " + some(outside) + " outside of node groups"
		}
	}
}

// tentative reports whether the member was placed by action backfill while its gang still waits for other members. Such
// a member is not bound unless the gang becomes ready. So its node does not decide in which node group pods are evicted for the
// gang.
func (s *session) tentative(job *api.JobInfo, task *api.TaskInfo) bool {
	return task.Status == api.Allocated && task.BestEffort && !s.ssn.JobReady(job)
}

// count counts one more placed member of the gang in the given node group and in all wider node groups that contain it.
func (p *gangScope) count(narrowest *topology.Group) {
	for g := narrowest; g != nil; g = g.Parent {
		p.members[g]++
	}
}

// most returns the node group with the most members; nil if all counts of members are 0. Of node groups with equal
// counts, it returns the first by path.
func most(groups []*topology.Group, counts map[*topology.Group]int) (best *topology.Group) {
	for _, g := range groups {
		if counts[g] > 0 && (best == nil || counts[g] > counts[best]) {
			best = g
		}
	}
	return best
}

// list returns, as text, the paths of the node groups that have members, each with its number of members. It lists at
// most maxListed node groups.
func list(groups []*topology.Group, counts map[*topology.Group]int) string {
	var names []string
	more := 0
	for _, g := range groups {
		switch {
		case counts[g] == 0:
		case len(names) == maxListed:
			more++
		default:
			names = append(names, fmt.Sprintf("%s (%d)", g.Path(), counts[g]))
		}
	}
	text := strings.Join(names, ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// some returns, as text, the name of the first of the nodes and the number of the other nodes.
func some(nodes map[string]bool) string {
	names := make([]string, 0, len(nodes))
	for name := range nodes {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) == 1 {
		return "node " + names[0]
	}
	return fmt.Sprintf("node %s and %d more", names[0], len(names)-1)
}

// restrict keeps the candidate node groups for which pass returns true. It records the other candidates as refused,
// with the reason.
func (p *gangScope) restrict(pass func(*topology.Group) bool, reason string) {
	var kept, refused []*topology.Group
	for _, g := range p.candidates {
		if pass(g) {
			kept = append(kept, g)
		} else {
			refused = append(refused, g)
		}
	}
	p.candidates = kept
	if len(refused) > 0 {
		p.refused = append(p.refused, refusal{refused, reason})
	}
}

// restrictToAffinityGroup keeps only the candidate node groups in the cluster with the other PodGroups of the job's
// affinity group. If these are only on nodes outside of node groups, it keeps none.
func (s *session) restrictToAffinityGroup(p *gangScope, job *api.JobInfo) {
	related := s.groupOf[job.UID]
	if related == "" {
		return
	}
	counts, outside := map[*topology.Group]int{}, map[string]bool{}
	for _, other := range s.affinityGroups[related] {
		if other == job {
			continue
		}
		for _, status := range placed {
			for _, task := range other.TaskStatusIndex[status] {
				cluster := s.forest.Of(task.NodeName, 0)
				if cluster == nil {
					outside[task.NodeName] = true
					continue
				}
				counts[cluster]++
			}
		}
	}
	_, group, _ := strings.Cut(related, "/")
	switch cluster := most(s.forest.At(0), counts); {
	case cluster != nil:
		p.restrict(func(g *topology.Group) bool { return g.At(0) == cluster },
			fmt.Sprintf("affinity group %s is in %s", group, cluster.Name))
	case len(outside) > 0:
		p.restrict(func(*topology.Group) bool { return false },
			fmt.Sprintf("affinity group %s is on %s, outside of node groups", group, some(outside)))
	}
}

// restrictToCurrentGroup keeps only one candidate, the node group that holds the placed members, if the gang must be in
// one node group. If the placed members are in no node group, it keeps no candidate. Otherwise the gang would be split
// once the labels of the placed members' nodes come back.
func (s *session) restrictToCurrentGroup(p *gangScope) {
	if p.mode != modeRequired {
		return
	}
	if p.outsideGroups {
		p.restrict(func(*topology.Group) bool { return false }, "the gang's pods are on nodes outside of node groups")
	}
	if p.currentGroup != nil {
		reason := "the gang's pods are in " + p.currentGroup.Path()
		if p.splitDescription != "" {
			reason = fmt.Sprintf("the gang is split across %s; new pods go to %s", p.splitDescription, p.currentGroup.Path())
		}
		p.restrict(func(g *topology.Group) bool { return g == p.currentGroup }, reason)
	}
}
