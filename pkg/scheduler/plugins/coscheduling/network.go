// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	corelisters "k8s.io/client-go/listers/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/coscheduling/topologyplan"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/ranks"
)

const (
	clusterLayer = string(v1alpha1.ClusterTopologyLayer)
	nodeLayer    = string(v1alpha1.NodeTopologyLayer)
)

// network holds, for one session, the layers and domains of the network, and the gangs that have topology rules.
type network struct {
	ssn    *framework.Session
	layers []layer
	// unread is the error if the layers could not be read; otherwise nil.
	unread error
	// domains has, by node name, the names of the domains that contain the node, the widest first.
	domains map[string][]string
	// asking has the gangs with topology rules.
	asking map[api.JobID]*gathered

	// mu guards affinityCounts and the required domains of gangs, because upstream's actions call predicates from
	// several goroutines.
	mu sync.Mutex
	// affinityCounts caches the number of pods on each node that have a topology selector (an annotation of pods). The
	// keys are the selector with its namespace, and the name of the node.
	affinityCounts map[string]map[string]int
}

// gathered is a gang with a topology rule, and the rule in the form that placement uses.
type gathered struct {
	rules []topologyplan.Layer
	// must is the narrowest layer in which the whole gang must be in one domain, as an index of the field rules. Index
	// 0 is the whole cluster, so that the gang may use any nodes. The last index is the layer of single nodes.
	must int
	// multiple reports whether a rule requires that the number of members in each domain is a multiple of some
	// number.
	multiple bool
	// err is the reason why the gang's rules cannot be used, so that the gang cannot be placed; otherwise nil.
	err error
	// requiredDomain caches the domain in which further members must be placed. It is valid while the field known is
	// set. known is reset when a member is placed or removed.
	requiredDomain string
	known          bool
}

// binds reports whether the topology rules forbid some nodes to the gang's members.
func (a *gathered) binds() bool { return a != nil && (a.must > 0 || a.err != nil) }

// invalidTopology returns why the gang's topology rules cannot be used. It returns nil if they can be used, or if the
// gang has none.
func (n *network) invalidTopology(job *api.JobInfo) error {
	if n == nil || n.asking[job.UID] == nil {
		return nil
	}
	return n.asking[job.UID].err
}

// newNetwork reads the topology rules of the session's gangs. If no gang has topology rules, it registers nothing and
// returns nil.
func newNetwork(ssn *framework.Session, gangs map[api.JobID]*gang, topology func() (*v1alpha1.ClusterNetworkTopology, error), nodes func() corelisters.NodeLister) *network {
	n := &network{ssn: ssn, asking: map[api.JobID]*gathered{}, affinityCounts: map[string]map[string]int{}}
	for uid, g := range gangs {
		if len(g.Gather) == 0 {
			continue
		}
		if len(n.asking) == 0 {
			n.read(topology)
		}
		n.asking[uid] = n.request(g)
	}
	if len(n.asking) == 0 {
		return nil
	}
	ssn.AddEventHandler(&vcframework.EventHandler{
		AllocateFunc:   func(event *vcframework.Event) { n.changed(event.Task, +1) },
		DeallocateFunc: func(event *vcframework.Event) { n.changed(event.Task, -1) },
	})
	n.addPreBind(nodes)
	return n
}

// read reads the layers of the network, and the domains of each node.
func (n *network) read(topologyOf func() (*v1alpha1.ClusterNetworkTopology, error)) {
	topology, err := topologyOf()
	if err == nil {
		n.layers, err = layersOf(topology)
	}
	n.unread = err
	n.domains = make(map[string][]string, len(n.ssn.NodeList))
	for _, node := range n.ssn.NodeList {
		n.domains[node.Name] = domainsOf(n.layers, node.Node)
	}
}

// request converts the gang's topology rules to one rule for each layer of the network. A rule for an unknown layer
// is ignored if it only states a preference. Otherwise it prevents the gang from being placed.
func (n *network) request(g *gang) *gathered {
	a := &gathered{rules: []topologyplan.Layer{{Name: clusterLayer}}}
	for _, l := range n.layers {
		a.rules = append(a.rules, topologyplan.Layer{Name: l.name})
	}
	a.rules = append(a.rules, topologyplan.Layer{Name: nodeLayer})
	var names []string
	for _, rule := range a.rules {
		names = append(names, rule.Name)
	}
	for _, rule := range g.Gather {
		i := slices.Index(names, rule.Layer)
		switch {
		case i >= 0:
			a.rules[i].Must, a.rules[i].Prefer, a.rules[i].Multiple = rule.Must, rule.Prefer, rule.Multiple
			if rule.Must {
				a.must = max(a.must, i)
			}
			a.multiple = a.multiple || rule.Multiple > 1
		case !rule.Must && rule.Multiple <= 1:
			problem := fmt.Sprintf("layer %s is unknown, must be one of %s", brief.Value(rule.Layer), strings.Join(names, ", "))
			if n.unread != nil {
				problem = fmt.Sprintf("layer %s of the network cannot be used: %v", brief.Value(rule.Layer), n.unread)
			}
			g.invalid = append(slices.Clip(g.invalid), gangs.InvalidSetting{Field: gangs.TopologyAnnotation, Problem: problem, Effect: "the rule is ignored"})
		case n.unread != nil:
			a.err = fmt.Errorf("layer %s of the network cannot be used: %w", brief.Value(rule.Layer), n.unread)
		default:
			a.err = fmt.Errorf("annotation %s names unknown layer %s; the layers are %s", gangs.TopologyAnnotation, brief.Value(rule.Layer), strings.Join(names, ", "))
		}
	}
	switch {
	case g.ContainsHardTopology():
		a.err = errors.New("annotation " + gangs.TopologyAnnotation + " conflicts with spec.networkTopology of mode hard; remove one of them")
	case g.ContainsSubJobPolicy():
		a.err = errors.New("annotation " + gangs.TopologyAnnotation + " conflicts with spec.subGroupPolicy; remove one of them")
	}
	return a
}

// placed are the statuses of members that have a node, also of members placed in this session.
var placed = []api.TaskStatus{api.Allocated, api.Pipelined, api.Binding, api.Bound, api.Running}

// topologyPlanner returns the planner that places the job by its topology rules; nil if the job has no topology
// rules.
func (n *network) topologyPlanner(job *api.JobInfo) (*framework.TopologyPlanner, error) {
	a := n.asking[job.UID]
	if a == nil || a.err != nil {
		if a == nil {
			return nil, nil
		}
		return nil, a.err
	}
	members := map[string]int{}
	for _, status := range placed {
		for _, task := range job.TaskStatusIndex[status] {
			members[task.NodeName]++
		}
	}
	affinityCounts := n.affinityCountsOf(job)
	on := func(slots map[string]int, most int) framework.TopologyPlans {
		nodes := make([]topologyplan.Node, 0, len(n.ssn.NodeList))
		for _, node := range n.ssn.NodeList {
			nodes = append(nodes, topologyplan.Node{
				Name: node.Name, Domains: n.domains[node.Name],
				Slots: slots[node.Name], Members: members[node.Name], AffinityCount: affinityCounts[node.Name],
			})
		}
		return plans{topologyplan.New(a.rules, nodes, most)}
	}
	return &framework.TopologyPlanner{On: on, Compare: ranks.New().Compare}, nil
}

// plans adapts a topologyplan.DomainTree to framework.TopologyPlans.
type plans struct{ *topologyplan.DomainTree }

// Plans implements framework.TopologyPlans.
func (p plans) Plans(wanted, now int) iter.Seq[[]framework.NodeShare] {
	return func(yield func([]framework.NodeShare) bool) {
		for plan := range p.DomainTree.Plans(wanted, now) {
			shares := make([]framework.NodeShare, len(plan))
			for i, share := range plan {
				shares[i] = framework.NodeShare(share)
			}
			if !yield(shares) {
				return
			}
		}
	}
}

// selectorOf returns the gang's topology selector, an annotation of its pods, in the form "namespace/selector"; empty
// if no pod has it. If pods differ, the first pod by name that has a selector decides.
func selectorOf(job *api.JobInfo) string {
	var first *api.TaskInfo
	for _, task := range job.Tasks {
		if task.Pod.Annotations[gangs.TopologySelectorAnnotation] != "" && (first == nil || task.Name < first.Name) {
			first = task
		}
	}
	if first == nil {
		return ""
	}
	return job.Namespace + "/" + first.Pod.Annotations[gangs.TopologySelectorAnnotation]
}

// affinityCountsOf returns, for each node, the number of pods that have the gang's topology selector (an annotation of
// pods). The gang prefers to be near these pods.
func (n *network) affinityCountsOf(job *api.JobInfo) map[string]int {
	selector := selectorOf(job)
	if selector == "" {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	counts, known := n.affinityCounts[selector]
	if !known {
		counts = map[string]int{}
		for _, node := range n.ssn.NodeList {
			for _, task := range node.Tasks {
				if selects(selector, task) {
					counts[node.Name]++
				}
			}
		}
		n.affinityCounts[selector] = counts
	}
	return counts
}

func selects(selector string, task *api.TaskInfo) bool {
	said := task.Pod.Annotations[gangs.TopologySelectorAnnotation]
	return said != "" && len(selector) == len(task.Namespace)+1+len(said) && selector == task.Namespace+"/"+said
}

// changed updates affinityCounts and discards the cached required domain of the task's gang. It is called after the
// task was placed in the session (by is 1) or removed (by is -1).
func (n *network) changed(task *api.TaskInfo, by int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for selector, counts := range n.affinityCounts {
		if selects(selector, task) {
			counts[task.NodeName] += by
		}
	}
	if a := n.asking[task.Job]; a != nil {
		a.known = false
	}
}
