// SPDX-License-Identifier: Apache-2.0

package allocator

// Options control how Allocate chooses devices.
type Options struct {
	// Strategy decides between devices when topology leaves a choice; nil prefers the lowest minors.
	Strategy Strategy
	// ScoreFirst applies to requests for shares of devices. It reports whether a high score of Strategy is more important
	// than breaking up the node's free devices as little as possible.
	ScoreFirst bool
	// NUMANodes, if not empty, restricts devices with a known NUMA node to these NUMA nodes. The numbers are the machine's
	// own numbers of NUMA nodes.
	NUMANodes []int
	// Templates are the shared-resource templates of GPUs; nil for none.
	Templates *Templates
}

// Refusal is the reason why a node cannot serve a request.
type Refusal struct {
	Reason string
	// Unresolvable reports whether the node could not serve the request even if all pods on it ended.
	Unresolvable bool
}

// Allocate chooses free devices for a request, or returns why the node cannot serve the request. It finds an allocation
// if one exists. It prefers devices in the narrowest scope (PCIe root, NUMA node, node), then the choice that breaks up
// the free devices least, then the strategy's best choice, then the lowest minors. Equal states give equal results.
func Allocate(s *State, r *Request, o Options) (*Allocation, *Refusal) {
	x := newSearch(s, r, &o)
	defer x.done()
	f := x.run()
	if f.why == found {
		return x.allocation(), nil
	}
	refusal := &Refusal{Reason: x.reason(f), Unresolvable: true}
	if s != s.empty {
		x.q.s, o.Strategy = s.empty, nil // without a strategy: only whether an empty node could serve the request matters here
		refusal.Unresolvable = x.run().why != found
	}
	return nil, refusal
}
