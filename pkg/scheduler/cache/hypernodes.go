// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"
	topologylisters "volcano.sh/apis/pkg/client/listers/topology/v1alpha1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
)

// hyperNodes are the HyperNodes as sessions see them, which is without faulty HyperNodes (hypernodetree.go).
//
// In upstream's cache, the placement of all gangs with a network topology fails if one HyperNode is a member of itself
// or of two others. Here the sessions' view is recomputed when HyperNodes or nodes have changed, and leaves out such a
// HyperNode.
type hyperNodes struct {
	all   topologylisters.HyperNodeLister
	nodes corelisters.NodeLister

	mu sync.Mutex
	// stale reports whether HyperNodes have changed since the last call of the method current, which updates the fields
	// below. changed has the names of the nodes that have changed since then.
	stale   bool
	changed map[string]bool

	// reading guards the fields below: the HyperNodes as sessions see them, and the data that they were computed from.
	// It is locked before the mutex mu.
	reading sync.Mutex
	claims  map[string]*claim
	info    *api.HyperNodesInfo
	faults  []hyperNodeFault
	// tierNames are the names of the tiers in info, sorted.
	tierNames []string
}

func newHyperNodes(all topologylisters.HyperNodeLister, nodes corelisters.NodeLister) *hyperNodes {
	return &hyperNodes{all: all, nodes: nodes, stale: true, changed: map[string]bool{}, claims: map[string]*claim{}}
}

// nodeChanged records that the node was added or deleted, or that its labels changed.
func (h *hyperNodes) nodeChanged(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed[name] = true
}

// summary returns whether HyperNodes exist, and the names of their tiers, as of the opening of the current session.
// Reports of PodGroup fields without effect use it. The result is read-only.
func (h *hyperNodes) summary() report.HyperNodes {
	h.reading.Lock()
	defer h.reading.Unlock()
	return report.HyperNodes{None: len(h.claims) == 0, TierNames: h.tierNames}
}

func (h *hyperNodes) hyperNodeChanged() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stale = true
}

// current returns the HyperNodes as sessions see them. It recomputes them when HyperNodes or nodes have changed. The
// result is read-only.
func (h *hyperNodes) current() *api.HyperNodesInfo {
	h.reading.Lock()
	defer h.reading.Unlock()
	h.mu.Lock()
	stale, changed := h.stale, h.changed
	if !stale && len(changed) == 0 {
		h.mu.Unlock()
		return h.info
	}
	h.stale, h.changed = false, map[string]bool{}
	h.mu.Unlock()
	if touched := h.lookAgain(changed); stale || touched {
		h.read()
	}
	return h.info
}

// latest returns the HyperNodes as the last session saw them; none before the first session. Unlike current, it changes
// nothing. The result is read-only.
func (h *hyperNodes) latest() *api.HyperNodesInfo {
	h.reading.Lock()
	defer h.reading.Unlock()
	if h.info == nil {
		return api.NewHyperNodesInfo(nil)
	}
	return h.info
}

// lookAgain updates which of the changed nodes are members of each HyperNode, because selectors may now match other
// nodes. It reports whether the nodes of any HyperNode have changed.
func (h *hyperNodes) lookAgain(changed map[string]bool) (touched bool) {
	for name := range changed {
		node, err := h.nodes.Get(name)
		if err != nil {
			node = nil // the node was deleted
		}
		for _, c := range h.claims {
			touched = c.matchNode(name, node) || touched
		}
	}
	return touched
}

// read recomputes the HyperNodes as sessions see them. It reads the specs of changed HyperNodes only, and uses the
// member lists of all other HyperNodes again.
func (h *hyperNodes) read() {
	all, _ := h.all.List(labels.Everything())     // a lister of an informer returns no error
	nodes, _ := h.nodes.List(labels.Everything()) // a lister of an informer returns no error
	slices.SortFunc(all, func(l, r *topologyv1alpha1.HyperNode) int {
		if !l.CreationTimestamp.Equal(&r.CreationTimestamp) {
			return l.CreationTimestamp.Compare(r.CreationTimestamp.Time)
		}
		return strings.Compare(l.Name, r.Name)
	})
	before := h.claims
	h.claims = make(map[string]*claim, len(all))
	byAge := make([]*claim, len(all))
	for i, hyperNode := range all {
		c := before[hyperNode.Name]
		if c == nil || c.hyperNode != hyperNode {
			c = readClaim(hyperNode)
			for _, node := range nodes {
				c.matchNode(node.Name, node)
			}
		}
		h.claims[hyperNode.Name], byAge[i] = c, c
	}
	h.info, h.faults = tree(byAge)
	h.tierNames = slices.Sorted(maps.Keys(h.info.HyperNodeTierNameMap()))
}

// invalid returns the faulty HyperNodes, which the current session leaves out.
func (h *hyperNodes) invalid() []hyperNodeFault {
	h.reading.Lock()
	defer h.reading.Unlock()
	return h.faults
}

func (ch *changes) hyperNodeChanged(any) {
	ch.hyperNodes.hyperNodeChanged()
	ch.wake(WakeNow)
}

// hyperNodeUpdated wakes the loop for changes of the fields that users write. It ignores the status, in which
// controllers update the number of nodes.
func (ch *changes) hyperNodeUpdated(oldObj, newObj any) {
	before, ok := oldObj.(*topologyv1alpha1.HyperNode)
	after, ok2 := newObj.(*topologyv1alpha1.HyperNode)
	if ok && ok2 && (before.UID != after.UID || !equality.Semantic.DeepEqual(before.Spec, after.Spec)) {
		ch.hyperNodeChanged(after)
	}
}
