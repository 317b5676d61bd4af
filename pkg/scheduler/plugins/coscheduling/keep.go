// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// place is where nodes may be kept: a node group, or all nodes.
type place struct {
	// name is of the group; empty for all nodes.
	name  string
	nodes []string
}

// kept is a choice of nodes, with what must leave them.
type kept struct {
	place
	nodes    []string
	occupied float64
}

// keep chooses the nodes of the guard: of each node group that its gang may lie in the emptiest that hold its minimum by what they have in
// all, and of these groups the one that is emptiest. It returns where they are, for people.
func (s *session) keep(g *guard) (where string, err error) {
	nodes := map[string]bool{}
	taken := map[string]bool{}
	for _, other := range s.plugin.guards {
		if other.queue != g.queue {
			for name := range other.nodes {
				taken[name] = true
			}
		}
	}
	left := map[string]*api.Resource{} // what the group's other gangs leave of the nodes
	for _, job := range s.together(g.gang) {
		best, err := s.choose(job, taken, left)
		if err != nil {
			return "", err
		}
		for _, name := range best.nodes {
			nodes[name] = true
		}
		s.fill(job, best.nodes, left)
		if best.name != "" {
			where = "of group " + best.name + " "
		}
	}
	g.nodes = nodes
	return where, nil
}

// choose chooses nodes for one gang.
func (s *session) choose(job *api.JobInfo, taken map[string]bool, left map[string]*api.Resource) (*kept, error) {
	places, err := s.places(job)
	if err != nil {
		return nil, err
	}
	var best *kept
	for _, p := range places {
		found := s.emptiest(job, p, taken, left)
		if found != nil && (best == nil || found.occupied < best.occupied) {
			best = found
		}
	}
	if best == nil {
		return nil, fmt.Errorf("no node group, and no set of nodes, that the members of %s may use and that is not kept for others could ever hold its minimum, with nothing else on it", job.UID)
	}
	return best, nil
}

// places are where the gang may lie: the domains it may be gathered in, of groups that are only preferred each, and else all nodes.
func (s *session) places(job *api.JobInfo) ([]place, error) {
	groups, err := s.NodeGroups(job)
	if err != nil {
		return nil, err
	}
	domains := s.network.domainsFor(job)
	if len(domains) > 0 && (groups == nil || !groups.Required) {
		return domains, nil
	}
	var places []place
	if groups != nil {
		for _, group := range groups.Candidates {
			if len(domains) > 0 {
				places = append(places, within(group, domains)...)
				continue
			}
			places = append(places, place{group.Path(), group.Nodes})
		}
		if groups.Required {
			if len(places) == 0 {
				return nil, errors.New("no node group may hold it")
			}
			return places, nil
		}
	}
	all := place{}
	for name := range s.Nodes {
		all.nodes = append(all.nodes, name)
	}
	return append(places, all), nil
}

// within are the parts of the domains in the group.
func within(group *topology.Group, domains []place) []place {
	in := map[string]bool{}
	for _, node := range group.Nodes {
		in[node] = true
	}
	var out []place
	for _, d := range domains {
		nodes := slices.DeleteFunc(slices.Clone(d.nodes), func(node string) bool { return !in[node] })
		if len(nodes) > 0 {
			out = append(out, place{group.Path() + ", " + d.name, nodes})
		}
	}
	return out
}

// emptiest are the emptiest nodes of the place that hold the gang's minimum; nil when all of them do not.
func (s *session) emptiest(job *api.JobInfo, p place, taken map[string]bool, left map[string]*api.Resource) *kept {
	type candidate struct {
		name     string
		occupied float64
	}
	var candidates []candidate
	priority := priorityOf(job)
	for _, name := range p.nodes {
		if node := s.Nodes[name]; node != nil && healthy(node) && !taken[name] {
			candidates = append(candidates, candidate{name, s.occupied(node, priority)})
		}
	}
	slices.SortFunc(candidates, func(l, r candidate) int {
		return cmp.Or(cmp.Compare(l.occupied, r.occupied), cmp.Compare(l.name, r.name))
	})
	packer := s.newPacker(job, left)
	found := &kept{place: p}
	for _, c := range candidates {
		if len(packer.tasks) == 0 {
			break
		}
		if packer.pack(s.Nodes[c.name]) {
			found.nodes = append(found.nodes, c.name)
			found.occupied += c.occupied
		}
	}
	if len(packer.tasks) > 0 {
		return nil
	}
	return found
}

// fill takes from the nodes what the gang will have there.
func (s *session) fill(job *api.JobInfo, nodes []string, left map[string]*api.Resource) {
	packer := s.newPacker(job, left)
	for _, name := range nodes {
		packer.pack(s.Nodes[name])
		left[name] = packer.room
	}
}

// packer packs the members of a gang, the largest first, on one node after the other.
type packer struct {
	session *session
	tasks   []*api.TaskInfo
	left    map[string]*api.Resource
	room    *api.Resource
	// affinities are read once for each of the members.
	affinities map[api.TaskID]nodeaffinity.RequiredNodeAffinity
}

func (s *session) newPacker(job *api.JobInfo, left map[string]*api.Resource) *packer {
	p := &packer{session: s, tasks: needed(job), left: left, affinities: map[api.TaskID]nodeaffinity.RequiredNodeAffinity{}}
	for _, task := range p.tasks {
		p.affinities[task.UID] = nodeaffinity.GetRequiredNodeAffinity(task.Pod)
	}
	return p
}

// pack returns true if members go on the node.
func (p *packer) pack(node *api.NodeInfo) bool {
	p.room = p.left[node.Name]
	if p.room == nil {
		p.room = p.session.lasting(node)
	}
	p.room = p.room.Clone()
	before := len(p.tasks)
	pods := node.Allocatable.MaxTaskNum
	p.tasks = slices.DeleteFunc(p.tasks, func(task *api.TaskInfo) bool {
		if pods <= 0 || !task.InitResreq.LessEqual(p.room, api.Zero) || !p.mayUse(task, node) {
			return false
		}
		p.room.SubWithoutAssert(task.Resreq)
		pods--
		return true
	})
	return len(p.tasks) < before
}

// mayUse is true if the node's labels and taints let the member use it.
func (p *packer) mayUse(task *api.TaskInfo, node *api.NodeInfo) bool {
	affinity := p.affinities[task.UID]
	if matches, err := affinity.Match(node.Node); err != nil || !matches {
		return false
	}
	_, untolerated := v1helper.FindMatchingUntoleratedTaint(node.Node.Spec.Taints, task.Pod.Spec.Tolerations, func(taint *v1.Taint) bool {
		return taint.Effect == v1.TaintEffectNoSchedule || taint.Effect == v1.TaintEffectNoExecute
	})
	return !untolerated
}

// healthy is true if pods may be placed on the node.
func healthy(node *api.NodeInfo) bool {
	return node.Node != nil && node.Ready() && !node.Node.Spec.Unschedulable
}

// needed are the members that the gang's minimum asks for, the largest: all of them if it asks for roles or sub-groups.
func needed(job *api.JobInfo) []*api.TaskInfo {
	var tasks []*api.TaskInfo
	for _, status := range []api.TaskStatus{api.Pending, api.Pipelined} {
		for _, task := range job.TaskStatusIndex[status] {
			if !task.SchGated {
				tasks = append(tasks, task)
			}
		}
	}
	slices.SortFunc(tasks, func(l, r *api.TaskInfo) int {
		return cmp.Or(compareSizes(r.Resreq, l.Resreq), cmp.Compare(l.UID, r.UID))
	})
	if len(job.TaskMinAvailable) == 0 && !job.ContainsSubJobPolicy() {
		tasks = tasks[:min(len(tasks), max(int(job.MinAvailable), 1))]
	}
	return tasks
}

// compareSizes compares what is scarce first: devices, then cpu, then memory.
func compareSizes(l, r *api.Resource) int {
	devices := func(res *api.Resource) (sum float64) {
		for _, v := range res.ScalarResources {
			sum += v
		}
		return sum
	}
	return cmp.Or(cmp.Compare(devices(l), devices(r)), cmp.Compare(l.MilliCPU, r.MilliCPU), cmp.Compare(l.Memory, r.Memory))
}
