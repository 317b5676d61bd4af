// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"
	topologylisters "volcano.sh/apis/pkg/client/listers/topology/v1alpha1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// hyperNodes are the HyperNodes as sessions see them: without faulty ones (hypernodetree.go).
//
// In upstream's cache, a HyperNode that is a member of itself or of two others makes the placement of all gangs with a network
// topology fail. Here the view is recomputed when HyperNodes or nodes have changed.
type hyperNodes struct {
	all   topologylisters.HyperNodeLister
	nodes corelisters.NodeLister

	mu sync.Mutex
	// stale reports whether HyperNodes changed since the last read. changed has the nodes that changed since then.
	stale   bool
	changed map[string]bool

	// reading guards the fields below, which are the result of the last read. It is locked before mu.
	reading sync.Mutex
	claims  map[string]*claim
	info    *api.HyperNodesInfo
	faults  []hyperNodeFault
}

func newHyperNodes(all topologylisters.HyperNodeLister, nodes corelisters.NodeLister) *hyperNodes {
	return &hyperNodes{all: all, nodes: nodes, stale: true, changed: map[string]bool{}, claims: map[string]*claim{}}
}

// nodeChanged records that the node was added or deleted, or has other labels.
func (h *hyperNodes) nodeChanged(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed[name] = true
}

// none reports whether the cluster had no HyperNodes when the current session opened.
func (h *hyperNodes) none() bool {
	h.reading.Lock()
	defer h.reading.Unlock()
	return len(h.claims) == 0
}

func (h *hyperNodes) hyperNodeChanged() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stale = true
}

// current returns the sessions' view, recomputed when something has changed. The result is read-only.
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

// lookAgain matches the changed nodes against the members that HyperNodes claim. It reports whether a HyperNode has other
// nodes now.
func (h *hyperNodes) lookAgain(changed map[string]bool) (touched bool) {
	for name := range changed {
		node, err := h.nodes.Get(name)
		if err != nil {
			node = nil // it was deleted
		}
		for _, c := range h.claims {
			touched = c.matchNode(name, node) || touched
		}
	}
	return touched
}

// read recomputes the sessions' view. The claims of unchanged HyperNodes are reused.
func (h *hyperNodes) read() {
	all, _ := h.all.List(labels.Everything())     // a lister of a cache does not fail
	nodes, _ := h.nodes.List(labels.Everything()) // a lister of a cache does not fail
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
}

// invalid returns the HyperNodes that the current session leaves out.
func (h *hyperNodes) invalid() []hyperNodeFault {
	h.reading.Lock()
	defer h.reading.Unlock()
	return h.faults
}

func (ch *changes) hyperNodeChanged(any) {
	ch.hyperNodes.hyperNodeChanged()
	ch.wake(WakeNow)
}

// hyperNodeUpdated compares the fields that users write. It ignores the status, in which controllers update the number of
// nodes.
func (ch *changes) hyperNodeUpdated(oldObj, newObj any) {
	before, ok := oldObj.(*topologyv1alpha1.HyperNode)
	after, ok2 := newObj.(*topologyv1alpha1.HyperNode)
	if ok && ok2 && (before.UID != after.UID || !equality.Semantic.DeepEqual(before.Spec, after.Spec)) {
		ch.hyperNodeChanged(after)
	}
}
