// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"cmp"
	"maps"
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
	// owned has, by node name, the part of the node's slices in byNode. shared has parts for sets of slices in elsewhere. Its key is
	// a bit set with one bit for each slice in elsewhere (view.places).
	owned, shared map[string]*part
	// views has, by node name, the nodes that were used in this session or the one before. reached are the slices that the nodes
	// used in this session reach.
	views   map[string]view
	reached map[string]*reach
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
	return &inventory{partitionable: partitionable, owned: map[string]*part{}, shared: map[string]*part{}, views: map[string]view{}, reached: map[string]*reach{}}
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
	maps.DeleteFunc(n.views, func(node string, _ view) bool { return n.reached[node] == nil })
	n.reached = map[string]*reach{}
	if len(n.shared) > len(n.views) {
		n.shared = map[string]*part{} // some are of nodes that no longer exist
	}
	known := make(map[string]*slice, len(now))
	changed := len(now) != len(n.known)
	for _, one := range now {
		s := n.known[one.Name]
		if s == nil || s.ResourceSlice != one {
			s, changed = newSlice(one), true
		}
		known[one.Name] = s
	}
	if changed {
		n.index(known)
	}
}

// index sorts the known slices into byNode and elsewhere. It keeps the cached parts and views that are still valid.
func (n *inventory) index(known map[string]*slice) {
	before := n.elsewhere
	n.known, n.byNode, n.elsewhere = known, map[string][]*slice{}, nil
	for _, s := range slices.SortedFunc(maps.Values(known), func(l, r *slice) int { return cmp.Compare(l.Name, r.Name) }) {
		switch node := ptr.Deref(s.Spec.NodeName, ""); {
		case !n.partitionable && s.Spec.PerDeviceNodeSelection != nil:
		case node != "":
			n.byNode[node] = append(n.byNode[node], s)
		default:
			n.elsewhere = append(n.elsewhere, s)
		}
	}
	maps.DeleteFunc(n.owned, func(node string, p *part) bool { return !slices.Equal(p.all, n.byNode[node]) })
	if !slices.EqualFunc(before, n.elsewhere, sameNodes) {
		n.shared, n.views = map[string]*part{}, map[string]view{}
		return
	}
	for at, s := range n.elsewhere {
		if s != before[at] {
			maps.DeleteFunc(n.shared, func(places string, _ *part) bool { return hasPlace(places, at) })
		}
	}
}

// sameNodes reports whether the same nodes reach both slices. It returns false if a slice names nodes for each device, because
// these nodes are not compared.
func sameNodes(l, r *slice) bool {
	return l == r || l.Name == r.Name && equality.Semantic.DeepEqual(l.Spec.NodeName, r.Spec.NodeName) && equality.Semantic.DeepEqual(l.Spec.AllNodes, r.Spec.AllNodes) &&
		equality.Semantic.DeepEqual(l.Spec.NodeSelector, r.Spec.NodeSelector) &&
		!ptr.Deref(l.Spec.PerDeviceNodeSelection, false) && !ptr.Deref(r.Spec.PerDeviceNodeSelection, false)
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

// ofOneNode reports whether all devices of the slice belong to one node.
func (s *slice) ofOneNode() bool { return ptr.Deref(s.Spec.NodeName, "") != "" }
