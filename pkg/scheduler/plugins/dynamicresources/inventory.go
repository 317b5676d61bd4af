// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"cmp"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// inventory are the devices of a cluster by the nodes that reach them. The allocator looks at all slices that it is given, for
// each node; here each node has its own.
type inventory struct {
	mu    sync.Mutex
	known map[string]*slice
	// byNode are the slices of one node, elsewhere those that several may reach, both by name.
	byNode    map[string][]*slice
	elsewhere []*slice
	// reached are what nodes reach, as they were when somebody asked last, since the inventory changed: those that were asked about in this
	// session, and in the one before.
	reached, reachedBefore map[string]*reach
	// partitionable is true if devices of one slice may be of several nodes (KEP-4815); slices that say so do not count otherwise.
	partitionable bool
}

type poolID struct{ driver, name string }

// slice is a ResourceSlice. It does not change: another version is another slice.
type slice struct {
	*resourceapi.ResourceSlice
	pool poolID
	ids  []structured.DeviceID
	// which nodes reach it: those of one name in nodes, or that match a selector, or all. unread is true if a selector cannot be read.
	nodes     map[string]bool
	selectors []*nodeaffinity.NodeSelector
	everyNode bool
	unread    bool

	selections
}

// reach is what a node reaches.
type reach struct {
	node *v1.Node
	// sound are the slices of the newest generation of pools that have no device twice; others are not allocated from.
	sound []*slice
	// all are those that the allocator needs to say whether it can tell all devices.
	all []*slice
	// pools are how many pools the sound ones are of.
	pools int
}

func newInventory(partitionable bool) *inventory {
	return &inventory{partitionable: partitionable, known: map[string]*slice{}, byNode: map[string][]*slice{}, reached: map[string]*reach{}}
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

// reachable adds nodes that reach the slice.
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

// update takes in the slices as they are now.
func (n *inventory) update(now []*resourceapi.ResourceSlice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	changed := false
	for _, one := range now {
		if old := n.known[one.Name]; old == nil || old.ResourceSlice != one {
			changed = true
			n.remove(old)
			n.add(newSlice(one))
		}
	}
	if len(n.known) > len(now) {
		changed = true
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
	n.reached, n.reachedBefore = map[string]*reach{}, n.reached
	if changed {
		n.reachedBefore = nil
	}
}

func byName(l, r *slice) int { return cmp.Compare(l.Name, r.Name) }

func (n *inventory) add(s *slice) {
	n.known[s.Name] = s
	if !n.partitionable && s.Spec.PerDeviceNodeSelection != nil {
		return
	}
	if node := ptr.Deref(s.Spec.NodeName, ""); node != "" {
		n.byNode[node] = inserted(n.byNode[node], s)
		return
	}
	n.elsewhere = inserted(n.elsewhere, s)
}

func (n *inventory) remove(s *slice) {
	if s == nil {
		return
	}
	delete(n.known, s.Name)
	node := ptr.Deref(s.Spec.NodeName, "")
	if node == "" {
		n.elsewhere = removed(n.elsewhere, s)
		return
	}
	if n.byNode[node] = removed(n.byNode[node], s); len(n.byNode[node]) == 0 {
		delete(n.byNode, node)
	}
}

// inserted and removed leave the list they are given as it is: somebody may be reading it.
func inserted(list []*slice, s *slice) []*slice {
	at, _ := slices.BinarySearchFunc(list, s, byName)
	return slices.Insert(slices.Clone(list), at, s)
}

func removed(list []*slice, s *slice) []*slice {
	return slices.DeleteFunc(slices.Clone(list), func(other *slice) bool { return other == s })
}

// shared are the slices that several nodes may reach.
func (n *inventory) shared() []*slice {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.elsewhere
}

// reach returns what the node reaches.
func (n *inventory) reach(node *v1.Node) *reach {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, known := range []*reach{n.reached[node.Name], n.reachedBefore[node.Name]} {
		if known != nil && known.node == node {
			n.reached[node.Name] = known
			return known
		}
	}
	r := &reach{node: node, all: slices.Clone(n.byNode[node.Name])}
	for _, s := range n.elsewhere {
		if s.reachedFrom(node) {
			r.all = append(r.all, s)
		}
	}
	r.sound, r.pools = sound(r.all)
	n.reached[node.Name] = r
	return r
}

// reachedFrom is true of a slice some device of which the node reaches. Of one whose selector cannot be read that is for the
// allocator to say.
func (s *slice) reachedFrom(node *v1.Node) bool {
	return s.unread || s.everyNode || s.nodes[node.Name] ||
		slices.ContainsFunc(s.selectors, func(selector *nodeaffinity.NodeSelector) bool { return selector.Match(node) })
}

// sound returns the slices that devices may be allocated from, and how many pools they are of.
func sound(all []*slice) ([]*slice, int) {
	newest := map[poolID]int64{}
	for _, s := range all {
		newest[s.pool] = max(newest[s.pool], s.Spec.Pool.Generation)
	}
	seen, twice := map[structured.DeviceID]bool{}, map[poolID]bool{}
	current := make([]*slice, 0, len(all))
	for _, s := range all {
		if s.Spec.Pool.Generation != newest[s.pool] {
			continue
		}
		current = append(current, s)
		for _, id := range s.ids {
			twice[s.pool] = twice[s.pool] || seen[id]
			seen[id] = true
		}
	}
	current = slices.DeleteFunc(current, func(s *slice) bool { return twice[s.pool] })
	pools := map[poolID]bool{}
	for _, s := range current {
		pools[s.pool] = true
	}
	return current, len(pools)
}
