// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"cmp"
	"encoding/json"
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
	sum := 0
	for _, job := range s.together(g.gang) {
		kinds, err := kindsOf(job)
		if err != nil {
			return "", err
		}
		if sum += len(kinds); sum > mostKinds {
			return "", fmt.Errorf("the members of its group are of more than %d kinds by gang, by what they ask for and by which nodes they may use", mostKinds)
		}
		best, err := s.choose(job, kinds, taken, left)
		if err != nil {
			return "", err
		}
		for _, name := range best.nodes {
			nodes[name] = true
		}
		s.fill(kinds, best.nodes, left)
		if best.name != "" {
			where = "of group " + best.name + " "
		}
	}
	g.nodes = nodes
	return where, nil
}

// choose chooses nodes for one gang.
func (s *session) choose(job *api.JobInfo, kinds []*memberKind, taken map[string]bool, left map[string]*api.Resource) (*kept, error) {
	places, err := s.places(job)
	if err != nil {
		return nil, err
	}
	var best *kept
	for _, p := range places {
		found := s.emptiest(kinds, priorityOf(job), p, taken, left)
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
	if err := s.network.mistaken(job); err != nil {
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
func (s *session) emptiest(kinds []*memberKind, priority int32, p place, taken map[string]bool, left map[string]*api.Resource) *kept {
	type candidate struct {
		name     string
		occupied float64
	}
	var candidates []candidate
	for _, name := range p.nodes {
		if node := s.Nodes[name]; node != nil && healthy(node) && !taken[name] {
			candidates = append(candidates, candidate{name, s.occupied(node, priority)})
		}
	}
	slices.SortFunc(candidates, func(l, r candidate) int {
		return cmp.Or(cmp.Compare(l.occupied, r.occupied), cmp.Compare(l.name, r.name))
	})
	packer := s.newPacker(kinds, left)
	found := &kept{place: p}
	for _, c := range candidates {
		if packer.done() {
			break
		}
		if packer.pack(s.Nodes[c.name]) {
			found.nodes = append(found.nodes, c.name)
			found.occupied += c.occupied
		}
	}
	if !packer.done() {
		return nil
	}
	return found
}

// fill takes from the nodes what the gang will have there.
func (s *session) fill(kinds []*memberKind, nodes []string, left map[string]*api.Resource) {
	packer := s.newPacker(kinds, left)
	for _, name := range nodes {
		packer.pack(s.Nodes[name])
		left[name] = packer.room
	}
}

// mostKinds is how many kinds of members of a gang or a group nodes are kept for: each is held against each node.
const mostKinds = 100

// packer packs the members of a gang, the largest first, on one node after the other.
type packer struct {
	session *session
	kinds   []*memberKind
	left    map[string]*api.Resource
	room    *api.Resource
}

// memberKind are members that ask for the same and may use the same nodes.
type memberKind struct {
	first    *api.TaskInfo
	affinity nodeaffinity.RequiredNodeAffinity
	count    int
}

func (s *session) newPacker(kinds []*memberKind, left map[string]*api.Resource) *packer {
	p := &packer{session: s, left: left}
	for _, kind := range kinds {
		own := *kind
		p.kinds = append(p.kinds, &own)
	}
	return p
}

// kindsOf are the kinds of members that the gang's minimum asks for, the largest first.
func kindsOf(job *api.JobInfo) ([]*memberKind, error) {
	var kinds []*memberKind
	known := map[string]*memberKind{}
	for _, task := range needed(job) {
		key, err := kindKey(task)
		if err != nil {
			return nil, err
		}
		kind := known[key]
		if kind == nil {
			if kind = (&memberKind{first: task, affinity: nodeaffinity.GetRequiredNodeAffinity(task.Pod)}); len(kinds) == mostKinds {
				return nil, fmt.Errorf("the members of %s are of more than %d kinds by what they ask for and which nodes they may use", job.UID, mostKinds)
			}
			kinds, known[key] = append(kinds, kind), kind
		}
		kind.count++
	}
	return kinds, nil
}

func kindKey(task *api.TaskInfo) (string, error) {
	spec := &task.Pod.Spec
	var required *v1.NodeSelector
	if spec.Affinity != nil && spec.Affinity.NodeAffinity != nil {
		required = spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	nodes, err := json.Marshal([]any{spec.NodeSelector, required, spec.Tolerations})
	if err != nil {
		return "", fmt.Errorf("which nodes pod %s may use: %w", task.Name, err)
	}
	return fmt.Sprint(task.Resreq, task.InitResreq, string(nodes)), nil
}

// done is true once all members are packed.
func (p *packer) done() bool {
	return !slices.ContainsFunc(p.kinds, func(kind *memberKind) bool { return kind.count > 0 })
}

// pack returns true if members go on the node.
func (p *packer) pack(node *api.NodeInfo) (some bool) {
	p.room = p.left[node.Name]
	if p.room == nil {
		p.room = p.session.lasting(node)
	}
	p.room = p.room.Clone()
	pods := node.Allocatable.MaxTaskNum
	for _, kind := range p.kinds {
		if kind.count == 0 || !kind.first.InitResreq.LessEqual(p.room, api.Zero) || !kind.mayUse(node) {
			continue
		}
		for ; kind.count > 0 && pods > 0 && kind.first.InitResreq.LessEqual(p.room, api.Zero); kind.count-- {
			p.room.SubWithoutAssert(kind.first.Resreq)
			pods--
			some = true
		}
	}
	return some
}

// mayUse is true if the node's labels and taints let the members use it.
func (k *memberKind) mayUse(node *api.NodeInfo) bool {
	if matches, err := k.affinity.Match(node.Node); err != nil || !matches {
		return false
	}
	_, untolerated := v1helper.FindMatchingUntoleratedTaint(node.Node.Spec.Taints, k.first.Pod.Spec.Tolerations, func(taint *v1.Taint) bool {
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
