// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"cmp"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// inventory indexes the ResourceSlices of a cluster by the nodes that reach the devices in them. A search on a node reads only the
// slices that the node reaches, not all slices of the cluster. Several nodes may reach the same slices. Which of these slices are
// valid and suit a claim is determined once for all of the nodes (part).
type inventory struct {
	mu    sync.Mutex
	known map[string]*slice
	// byNode are the slices that belong to one node, by the node's name. elsewhere are the slices that several nodes may reach.
	// Both are sorted by the names of the slices.
	byNode    map[string][]*slice
	elsewhere []*slice
	// owned has, by node name, a part: the node's slices in byNode, with a cache of which of them are valid and suit claims.
	// shared has such parts for sets of slices in elsewhere. Its key is a bit set with one bit for each slice in elsewhere (see
	// view.places).
	owned  map[string]*part
	shared map[string]*part
	// seen caches which slices the nodes that were used in this session reach, by node name. seenBefore is the cache of the
	// previous session. Both are dropped when the list elsewhere changes, or when other nodes reach one of its slices.
	seen, seenBefore map[string]*view
	// partitionable reports whether a slice may name different nodes for its devices (KEP-4815). If partitionable is false, such
	// slices are ignored.
	partitionable bool
}

type poolID struct{ driver, name string }

// slice is one version of a ResourceSlice. It never changes, except that it caches which of its devices suit a request
// (selections).
type slice struct {
	*resourceapi.ResourceSlice
	pool poolID
	ids  []structured.DeviceID
	// A node reaches the slice if nodes has its name, if one of the selectors matches it, or if everyNode is true. unread reports
	// whether a selector cannot be parsed.
	nodes     map[string]bool
	selectors []*nodeaffinity.NodeSelector
	everyNode bool
	unread    bool

	selections
}

func newInventory(partitionable bool) *inventory {
	return &inventory{
		partitionable: partitionable, known: map[string]*slice{}, byNode: map[string][]*slice{}, owned: map[string]*part{}, shared: map[string]*part{}, seen: map[string]*view{},
	}
}

func newSlice(of *resourceapi.ResourceSlice) *slice {
	s := &slice{ResourceSlice: of, pool: poolID{of.Spec.Driver, of.Spec.Pool.Name}, ids: make([]structured.DeviceID, len(of.Spec.Devices))}
	for i := range of.Spec.Devices {
		s.ids[i] = structured.MakeDeviceID(of.Spec.Driver, of.Spec.Pool.Name, of.Spec.Devices[i].Name)
	}
	spec := &of.Spec
	if ptr.Deref(spec.NodeName, "") != "" || ptr.Deref(spec.AllNodes, false) || spec.NodeSelector != nil || !ptr.Deref(spec.PerDeviceNodeSelection, false) {
		s.reachable(spec.NodeName, spec.AllNodes, spec.NodeSelector)
		return s
	}
	for i := range spec.Devices {
		s.reachable(spec.Devices[i].NodeName, spec.Devices[i].AllNodes, spec.Devices[i].NodeSelector)
	}
	return s
}

// reachable records which nodes reach a device of the slice: the node with the name, all nodes, or the nodes that the selector
// matches.
func (s *slice) reachable(name *string, all *bool, selector *v1.NodeSelector) {
	switch {
	case ptr.Deref(name, "") != "":
		if s.nodes == nil {
			s.nodes = map[string]bool{}
		}
		s.nodes[*name] = true
	case ptr.Deref(all, false):
		s.everyNode = true
	case selector != nil:
		parsed, err := nodeaffinity.NewNodeSelector(selector)
		if err != nil {
			s.unread = true
			return
		}
		s.selectors = append(s.selectors, parsed)
	}
}

// update replaces the known slices with the slices in now, at the start of a session.
func (n *inventory) update(now []*resourceapi.ResourceSlice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, one := range now {
		if old := n.known[one.Name]; old == nil || old.ResourceSlice != one {
			n.replace(old, newSlice(one))
		}
	}
	if len(n.known) > len(now) {
		there := make(map[string]bool, len(now))
		for _, one := range now {
			there[one.Name] = true
		}
		for name, old := range n.known {
			if !there[name] {
				n.remove(old)
			}
		}
	}
	used := make(map[string]*part, len(n.shared))
	for _, one := range n.seen {
		if known := n.shared[one.places]; known != nil {
			used[one.places] = known
		}
	}
	n.seen, n.seenBefore, n.shared = map[string]*view{}, n.seen, used
}

// replace replaces the version old of a slice with the version s. old is nil for a new slice. If the same nodes reach both
// versions, the caches of the slices that each node reaches (n.seen and n.seenBefore) stay valid.
func (n *inventory) replace(old, s *slice) {
	at := slices.Index(n.elsewhere, old)
	if at < 0 || !sameNodes(old.ResourceSlice, s.ResourceSlice) {
		n.remove(old)
		n.add(s)
		return
	}
	n.known[s.Name] = s
	n.elsewhere = slices.Clone(n.elsewhere)
	n.elsewhere[at] = s
	for places := range n.shared {
		if hasPlace(places, at) {
			delete(n.shared, places)
		}
	}
}

// sameNodes reports whether the same nodes reach both versions of a slice. It returns false if a version names nodes for each
// device, because these nodes are not compared.
func sameNodes(l, r *resourceapi.ResourceSlice) bool {
	return equality.Semantic.DeepEqual(l.Spec.NodeName, r.Spec.NodeName) && equality.Semantic.DeepEqual(l.Spec.AllNodes, r.Spec.AllNodes) &&
		equality.Semantic.DeepEqual(l.Spec.NodeSelector, r.Spec.NodeSelector) &&
		!ptr.Deref(l.Spec.PerDeviceNodeSelection, false) && !ptr.Deref(r.Spec.PerDeviceNodeSelection, false)
}

func byName(l, r *slice) int { return cmp.Compare(l.Name, r.Name) }

func (n *inventory) add(s *slice) {
	n.known[s.Name] = s
	if !n.partitionable && s.Spec.PerDeviceNodeSelection != nil {
		return
	}
	if node := ptr.Deref(s.Spec.NodeName, ""); node != "" {
		n.byNode[node] = inserted(n.byNode[node], s)
		delete(n.owned, node)
		return
	}
	n.elsewhere = inserted(n.elsewhere, s)
	n.forgetShared()
}

func (n *inventory) remove(s *slice) {
	if s == nil {
		return
	}
	delete(n.known, s.Name)
	node := ptr.Deref(s.Spec.NodeName, "")
	if node == "" {
		n.elsewhere = removed(n.elsewhere, s)
		n.forgetShared()
		return
	}
	delete(n.owned, node)
	if n.byNode[node] = removed(n.byNode[node], s); len(n.byNode[node]) == 0 {
		delete(n.byNode, node)
	}
}

// inserted and removed return a changed copy of the list, because a search may still read the list itself.
func inserted(list []*slice, s *slice) []*slice {
	at, _ := slices.BinarySearchFunc(list, s, byName)
	return slices.Insert(slices.Clone(list), at, s)
}

func removed(list []*slice, s *slice) []*slice {
	return slices.DeleteFunc(slices.Clone(list), func(other *slice) bool { return other == s })
}

// forgetShared drops the parts for sets of slices that several nodes may reach, and which of these slices each node reaches.
func (n *inventory) forgetShared() {
	n.shared, n.seen, n.seenBefore = map[string]*part{}, map[string]*view{}, nil
}

// forSeveral returns the slices that several nodes may reach.
func (n *inventory) forSeveral() []*slice {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.elsewhere
}

// reachedFrom reports whether the node may reach a device of the slice. It returns true if a selector of the slice cannot be
// parsed, because the allocator then reports the error.
func (s *slice) reachedFrom(node *v1.Node) bool {
	return s.unread || s.everyNode || s.nodes[node.Name] ||
		slices.ContainsFunc(s.selectors, func(selector *nodeaffinity.NodeSelector) bool { return selector.Match(node) })
}
