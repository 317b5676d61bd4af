// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
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
// Nodes that reach the same shared slices share one part.
type part struct {
	// sound are the slices from which devices are allocated: slices of the newest generation of their pools. Slices of a pool with
	// duplicate devices are left out.
	sound []*slice
	// ofSeveral reports whether a slice in the field sound has devices of several nodes.
	ofSeveral bool
	// all are all slices of the part. The allocator also needs the slices from which no devices are allocated, to decide whether a
	// pool is complete.
	all []*slice
	// pools are the pools of the slices in the field sound, from which devices are allocated. named are the pools of all slices
	// of the part.
	pools, named map[poolID]bool

	mu sync.Mutex
	// suiting caches which slices in the field sound have devices that suit a set of claims. The key is made from all selectors of
	// the claims.
	suiting map[string][]*slice
}

func newPart(all []*slice) *part {
	p := &part{all: all, pools: map[poolID]bool{}, named: map[poolID]bool{}}
	newest, seen, twice := map[poolID]int64{}, map[structured.DeviceID]bool{}, map[poolID]bool{}
	for _, s := range all {
		p.named[s.pool] = true
		newest[s.pool] = max(newest[s.pool], s.Spec.Pool.Generation)
	}
	for _, s := range all {
		if s.Spec.Pool.Generation != newest[s.pool] {
			continue
		}
		p.sound = append(p.sound, s)
		for _, id := range s.ids {
			twice[s.pool] = twice[s.pool] || seen[id]
			seen[id] = true
		}
	}
	p.sound = slices.DeleteFunc(p.sound, func(s *slice) bool { return twice[s.pool] })
	for _, s := range p.sound {
		p.pools[s.pool] = true
		p.ofSeveral = p.ofSeveral || !s.ofOneNode()
	}
	return p
}

// view caches which shared slices a node reaches. places has one bit for each slice that several nodes may reach
// (inventory.elsewhere). The bit is set if the node reaches the slice.
type view struct {
	node   *v1.Node
	places string
}

// reach returns the slices that the node reaches. The result does not change within a session.
func (n *inventory) reach(node *v1.Node) *reach {
	n.mu.Lock()
	defer n.mu.Unlock()
	if known := n.reached[node.Name]; known != nil && known.node == node {
		return known
	}
	r := &reach{node: node, own: n.ownPart(node.Name), shared: n.sharedPart(n.placesOf(node))}
	for pool := range r.own.named {
		if r.shared.named[pool] { // newPart finds the newest generation and duplicates only among all slices of a pool
			r.own, r.shared = newPart(r.all()), nothing
			break
		}
	}
	n.reached[node.Name] = r
	return r
}

func (n *inventory) placesOf(node *v1.Node) string {
	if known := n.views[node.Name]; known.node == node {
		return known.places
	}
	places := make([]byte, (len(n.elsewhere)+7)/8)
	for at, s := range n.elsewhere {
		if s.reachedFrom(node) {
			places[at/8] |= 1 << (at % 8)
		}
	}
	n.views[node.Name] = view{node, string(places)}
	return string(places)
}

// hasPlace reports whether places has a bit for the slice with the index at in inventory.elsewhere. The bit is set if the node
// reaches the slice (view.places).
func hasPlace(places string, at int) bool { return places[at/8]&(1<<(at%8)) != 0 }

// nothing is the part of nodes without slices of their own.
var nothing = newPart(nil)

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

// suitingAny returns the slices of the part from which devices may be allocated for the needs. It leaves out a slice of several
// nodes if no device of the slice suits them. There may be many such slices, and they may be large.
func (p *part) suitingAny(ctx context.Context, compiled *selectorCache, needs []need) ([]*slice, error) {
	if !p.ofSeveral {
		return p.sound, nil
	}
	key := keyOf(needs)
	p.mu.Lock()
	kept, known := p.suiting[key]
	p.mu.Unlock()
	if known {
		return kept, nil
	}
	for _, one := range p.sound {
		keep := one.ofOneNode()
		if !keep {
			var err error
			if keep, err = one.suitsAny(ctx, compiled, needs); err != nil {
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

// keyOf returns a key that is made from all device selectors of the needs.
func keyOf(needs []need) string {
	keys := map[selectionKey]bool{}
	for i := range needs {
		for k := range needs[i].choices {
			keys[needs[i].choices[k].key] = true
		}
	}
	var all []byte
	for _, key := range slices.SortedFunc(maps.Keys(keys), func(l, r selectionKey) int { return bytes.Compare(l[:], r[:]) }) {
		all = append(all, key[:]...)
	}
	return string(all)
}
