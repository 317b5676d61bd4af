// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
)

// reach is the set of ResourceSlices that a node reaches. own are the slices that belong only to this node, and shared are the
// other slices. If a pool has slices of both kinds, all slices are in own.
type reach struct {
	node        *v1.Node
	own, shared *part
}

// pools returns the number of pools from which devices may be allocated.
func (r *reach) pools() int { return len(r.own.pools) + len(r.shared.pools) }

// all returns all slices that the node reaches.
func (r *reach) all() []*slice { return slices.Concat(r.own.all, r.shared.all) }

// part is a set of slices. It caches which of them are valid (sound), and which of the valid ones suit a set of claims (suiting).
// Nodes that reach the same slices share one part.
type part struct {
	// sound are the slices from which devices are allocated: slices of the newest generation of their pools. Slices of a pool with
	// duplicate devices are left out.
	sound []*slice
	// all are all slices of the part. The allocator also needs the slices from which no devices are allocated, to decide whether a
	// pool is complete.
	all []*slice
	// pools are the pools of the slices in the field sound, from which devices are allocated. named are the pools of all slices
	// of the part.
	pools, named map[poolID]bool
	// ofOneNode reports whether each slice of the part belongs to a single node.
	ofOneNode bool

	mu sync.Mutex
	// suiting caches which slices in the field sound have devices that suit a set of claims. The key is made from all selectors of
	// the claims.
	suiting map[string][]*slice
}

// nothing is the empty set of slices, for nodes that reach no slices.
var nothing = newPart(nil)

func newPart(all []*slice) *part {
	p := &part{all: all, named: map[poolID]bool{}, ofOneNode: true}
	p.sound, p.pools = sound(all)
	for _, s := range all {
		p.named[s.pool] = true
		p.ofOneNode = p.ofOneNode && s.ofOneNode()
	}
	return p
}

// sound returns the slices from which devices may be allocated, and the pools of these slices. It leaves out slices that are not
// of the newest generation of their pool, and all slices of a pool with duplicate devices.
func sound(all []*slice) ([]*slice, map[poolID]bool) {
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
	return current, pools
}

// view caches which slices a node reaches. places has one bit for each slice that several nodes may reach (inventory.elsewhere).
// The bit is set if the node reaches the slice. reach is the last result of inventory.reach for the node.
type view struct {
	node   *v1.Node
	places string
	// own and shared are the parts (sets of slices) from which the value in reach was made. If one of them is replaced, reach is
	// made again.
	own, shared *part
	reach       *reach
}

// reach returns the slices that the node reaches. It returns the cached value if the node and these slices have not changed.
func (n *inventory) reach(node *v1.Node) *reach {
	n.mu.Lock()
	defer n.mu.Unlock()
	seen := n.viewOf(node)
	own, shared := n.ownPart(node.Name), n.sharedPart(seen.places)
	if seen.reach != nil && seen.own == own && seen.shared == shared {
		return seen.reach
	}
	seen.own, seen.shared = own, shared
	seen.reach = &reach{node: node, own: own, shared: shared}
	for pool := range own.named {
		if shared.named[pool] { // newPart finds the newest generation and duplicates only among all slices of a pool
			seen.reach = &reach{node: node, own: newPart(slices.Concat(own.all, shared.all)), shared: nothing}
			break
		}
	}
	return seen.reach
}

func (n *inventory) viewOf(node *v1.Node) *view {
	for _, known := range []*view{n.seen[node.Name], n.seenBefore[node.Name]} {
		if known != nil && known.node == node {
			n.seen[node.Name] = known
			return known
		}
	}
	places := make([]byte, (len(n.elsewhere)+7)/8)
	for at, s := range n.elsewhere {
		if s.reachedFrom(node) {
			places[at/8] |= 1 << (at % 8)
		}
	}
	made := &view{node: node, places: string(places)}
	n.seen[node.Name] = made
	return made
}

// hasPlace reports whether places has a bit for the slice with the index at in inventory.elsewhere. The bit is set if the node
// reaches the slice (view.places).
func hasPlace(places string, at int) bool { return places[at/8]&(1<<(at%8)) != 0 }

func (n *inventory) ownPart(node string) *part {
	if len(n.byNode[node]) == 0 {
		return nothing
	}
	if n.owned[node] == nil {
		n.owned[node] = newPart(n.byNode[node])
	}
	return n.owned[node]
}

func (n *inventory) sharedPart(places string) *part {
	if n.shared[places] == nil {
		var all []*slice
		for at, s := range n.elsewhere {
			if hasPlace(places, at) {
				all = append(all, s)
			}
		}
		n.shared[places] = newPart(all)
	}
	return n.shared[places]
}

// suitingAny returns the slices of the part from which devices may be allocated for the claims. It leaves out a slice of several
// nodes if no device of the slice suits the claims. There may be many such slices, and they may be large.
func (p *part) suitingAny(ctx context.Context, c *catalog, claims []*resourceapi.ResourceClaim) ([]*slice, error) {
	if p.ofOneNode {
		return p.sound, nil
	}
	key, err := c.selectedBy(claims)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	kept, known := p.suiting[key]
	p.mu.Unlock()
	if known {
		return kept, nil
	}
	for _, one := range p.sound {
		keep := one.ofOneNode()
		if !keep {
			if keep, err = c.suitsAny(ctx, one, claims); err != nil {
				return nil, err
			}
		}
		if keep {
			kept = append(kept, one)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.suiting == nil || len(p.suiting) >= mostSelections {
		p.suiting = map[string][]*slice{}
	}
	p.suiting[key] = kept
	return kept, nil
}

// selectedBy returns a key that is made from all device selectors of the claims and of their device classes.
func (c *catalog) selectedBy(claims []*resourceapi.ResourceClaim) (string, error) {
	keys := map[selectionKey]bool{}
	for _, claim := range claims {
		for i := range claim.Spec.Devices.Requests {
			choices, err := choicesOf(&claim.Spec.Devices.Requests[i], c.classes)
			if err != nil {
				return "", err
			}
			for k := range choices {
				keys[choices[k].key()] = true
			}
		}
	}
	var all []byte
	for _, key := range slices.SortedFunc(maps.Keys(keys), func(l, r selectionKey) int { return bytes.Compare(l[:], r[:]) }) {
		all = append(all, key[:]...)
	}
	return string(all), nil
}
