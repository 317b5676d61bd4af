// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"cmp"
	"container/heap"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// cost is the cost of placing a gang in a node group by evictions.
type cost struct {
	// short is how many members do not fit even after all possible evictions.
	short int
	// evictions is how many pods must be evicted so that the other members fit.
	evictions int
}

// estimate estimates the cost of each node group if an evicting action places the gang's missing members there. It
// considers requests, and the members' node selectors, node affinity and tolerations. It does not call other
// predicates. Only pods that the plugins allow the action to evict are possible victims, in the action's order. Each
// member goes to the node with the fewest victims, which need not be the best choice for the whole gang.
type estimate struct {
	ssn     *framework.Session
	action  string
	members []*api.TaskInfo
}

// newEstimate returns an estimate for a job without members on nodes. The estimate is for the members that the job's
// minimum needs, in the order in which actions place members.
func (s *session) newEstimate(job *api.JobInfo, action string) *estimate {
	e := &estimate{ssn: s.ssn, action: action}
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if !task.SchGated {
			e.members = append(e.members, task)
		}
	}
	before := func(l, r *api.TaskInfo) int {
		if s.ssn.TaskOrderFn(l, r) {
			return 1
		}
		return 0
	}
	slices.SortFunc(e.members, func(l, r *api.TaskInfo) int { return cmp.Compare(l.UID, r.UID) })
	slices.SortStableFunc(e.members, func(l, r *api.TaskInfo) int { return before(r, l) - before(l, r) })
	missing := max(1, int(job.MinAvailable-job.ReadyTaskNum()))
	e.members = e.members[:min(missing, len(e.members))]
	return e
}

// of estimates the cost of placing the members in the node group.
func (e *estimate) of(group *topology.Group) cost {
	rooms := make([]*evictableNode, 0, len(group.Nodes))
	for _, name := range group.Nodes {
		if node := e.ssn.Nodes[name]; node != nil {
			rooms = append(rooms, e.nodeToEvictOn(node))
		}
	}
	var c cost
	var open roomHeap
	for i, member := range e.members {
		if i == 0 || !sameNodeRules(member, e.members[i-1]) {
			open = open[:0]
			for _, r := range rooms {
				if r.computeCost(member) {
					open = append(open, r)
				}
			}
			heap.Init(&open)
		}
		if len(open) == 0 {
			c.short++
			continue
		}
		r := open[0]
		c.evictions += r.evictions
		r.placeMember(member)
		if r.computeCost(member) {
			heap.Fix(&open, 0)
		} else {
			heap.Pop(&open)
		}
	}
	return c
}

// sameNodeRules reports whether the two tasks have equal requests, node selectors, affinity and tolerations, so that
// both fit on the same nodes.
func sameNodeRules(l, r *api.TaskInfo) bool {
	return l.InitResreq.Equal(r.InitResreq, api.Zero) &&
		equality.Semantic.DeepEqual(l.Pod.Spec.NodeSelector, r.Pod.Spec.NodeSelector) &&
		equality.Semantic.DeepEqual(l.Pod.Spec.Affinity, r.Pod.Spec.Affinity) &&
		equality.Semantic.DeepEqual(l.Pod.Spec.Tolerations, r.Pod.Spec.Tolerations)
}

// evictableNode is a node on which pods may be evicted for the gang.
type evictableNode struct {
	node *v1.Node
	idle *api.Resource
	// victims are the pods that may still be evicted, in the order of eviction.
	victims []*api.TaskInfo
	// least is the smallest number of pods that the action evicts on a node for a member: 1 for reclaim, 0 for preempt.
	least int
	// evictions is how many victims must be evicted on the node for the next member, as computeCost sets it.
	evictions int
}

func (e *estimate) nodeToEvictOn(node *api.NodeInfo) *evictableNode {
	r := &evictableNode{node: node.Node, idle: node.FutureIdle()}
	if e.action == reclaimAction {
		r.least = 1 // reclaim skips nodes that have no pods to reclaim
	}
	preemptor := e.members[0]
	var candidates []*api.TaskInfo
	for _, task := range node.Tasks {
		if e.mayGo(task, preemptor) {
			candidates = append(candidates, task)
		}
	}
	if len(candidates) == 0 {
		return r
	}
	slices.SortFunc(candidates, func(l, r *api.TaskInfo) int { return cmp.Compare(l.UID, r.UID) })
	if e.action == reclaimAction {
		candidates = e.ssn.Reclaimable(preemptor, candidates)
	} else {
		candidates = e.ssn.Preemptable(preemptor, candidates)
	}
	for order := e.ssn.BuildVictimsPriorityQueue(candidates, preemptor); !order.Empty(); {
		r.victims = append(r.victims, order.Pop().(*api.TaskInfo))
	}
	return r
}

// mayGo reports whether the action considers the task as a victim for the preemptor. The plugins may still forbid the
// eviction.
func (e *estimate) mayGo(task, preemptor *api.TaskInfo) bool {
	job, mine := e.ssn.Jobs[task.Job], e.ssn.Jobs[preemptor.Job]
	if job == nil || !task.Preemptable {
		return false
	}
	if e.action == reclaimAction {
		return task.Status == api.Running && job.Queue != mine.Queue && e.ssn.Queues[job.Queue].Reclaimable()
	}
	return api.PreemptableStatus(task.Status) && job.Queue == mine.Queue
}

// computeCost sets evictions to the number of victims that must be evicted for the member. It returns false if the
// member does not fit even after all victims are evicted.
func (r *evictableNode) computeCost(member *api.TaskInfo) bool {
	if r.least > len(r.victims) || !admits(r.node, member.Pod) {
		return false
	}
	idle := r.idle.Clone()
	for r.evictions = 0; ; r.evictions++ {
		if r.evictions >= r.least && member.InitResreq.LessEqual(idle, api.Zero) {
			return true
		}
		if r.evictions == len(r.victims) {
			return false
		}
		idle.Add(r.victims[r.evictions].Resreq)
	}
}

// placeMember places the member on the node after the evictions that computeCost computed.
func (r *evictableNode) placeMember(member *api.TaskInfo) {
	for _, victim := range r.victims[:r.evictions] {
		r.idle.Add(victim.Resreq)
	}
	r.victims = r.victims[r.evictions:]
	r.idle.Sub(member.InitResreq)
}

// admits reports whether the node's taints and labels allow the pod on the node.
func admits(node *v1.Node, pod *v1.Pod) bool {
	taints := node.Spec.Taints
	if node.Spec.Unschedulable {
		taints = append(slices.Clone(taints), v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule})
	}
	_, untolerated := corev1helpers.FindMatchingUntoleratedTaint(taints, pod.Spec.Tolerations, func(taint *v1.Taint) bool {
		return taint.Effect == v1.TaintEffectNoSchedule || taint.Effect == v1.TaintEffectNoExecute
	})
	if untolerated {
		return false
	}
	matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	return err == nil && matches
}

// roomHeap is a heap of nodes. The node with the fewest evictions is on top; among equals, the first node by name.
type roomHeap []*evictableNode

func (h roomHeap) Len() int { return len(h) }
func (h roomHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].evictions, h[j].evictions), cmp.Compare(h[i].node.Name, h[j].node.Name)) < 0
}
func (h roomHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *roomHeap) Push(x any)   { *h = append(*h, x.(*evictableNode)) }
func (h *roomHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
