// SPDX-License-Identifier: Apache-2.0

package allocator

// Options control the choice of devices.
type Options struct {
	// Strategy decides which devices are better if topology does not decide; nil prefers the lowest minors.
	Strategy Strategy
	// ScoreFirst reports whether, for shares, the strategy's score takes precedence over keeping the node's topology
	// together.
	ScoreFirst bool
	// NUMANodes, if not empty, restricts devices with a known NUMA node to these, by the machine's numbers.
	NUMANodes []int
	// Templates are the shared-resource templates; nil for none.
	Templates *Templates
}

// Refusal is the reason why a node cannot serve a request.
type Refusal struct {
	Reason string
	// Unresolvable reports whether the node could not serve the request even if pods there ended.
	Unresolvable bool
}

// Allocate chooses free devices for a request. It finds an allocation if one exists. It prefers devices in the narrowest scope,
// then choices that break up the free devices least, then the strategy's best, then the lowest minors. Equal states give equal
// results.
func Allocate(s *State, r *Request, o Options) (*Allocation, *Refusal) {
	x := newSearch(s, r, &o)
	defer x.done()
	f := x.run()
	if f.why == found {
		return x.allocation(), nil
	}
	refusal := &Refusal{Reason: x.reason(f), Unresolvable: true}
	if s != s.empty {
		x.q.s, o.Strategy = s.empty, nil // any placement suffices
		refusal.Unresolvable = x.run().why != found
	}
	return nil, refusal
}
