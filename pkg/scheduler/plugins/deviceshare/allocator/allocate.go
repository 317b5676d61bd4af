// SPDX-License-Identifier: Apache-2.0

package allocator

// Options are how devices are chosen.
type Options struct {
	// Strategy is which devices are better where topology says nothing; nil for the lowest minors.
	Strategy Strategy
	// ScoreFirst is true if, for shares, the strategy goes before how much of the node's topology is broken up.
	ScoreFirst bool
	// NUMANodes, if there are any, are the NUMA nodes, by the machine's numbers, to which devices are restricted that say theirs.
	NUMANodes []int
	// Templates are the shared-resource templates; nil for none.
	Templates *Templates
}

// Refusal is why a node cannot serve a request.
type Refusal struct {
	Reason string
	// Unresolvable is true if the node would not serve it whatever pods there end.
	Unresolvable bool
}

// Allocate chooses the devices for a request from what is free. If there are any that serve it, it finds some: those that share the narrowest scope, then those
// that leave the free devices least broken up, then the strategy's best, then the lowest minors. Equal states give equal answers.
func Allocate(s *State, r *Request, o Options) (*Allocation, *Refusal) {
	x := newSearch(s, r, &o)
	defer x.done()
	f := x.run()
	if f.why == found {
		return x.allocation(), nil
	}
	refusal := &Refusal{Reason: x.reason(f), Unresolvable: true}
	if s != s.empty {
		x.q.s, o.Strategy = s.empty, nil // any placement will do
		refusal.Unresolvable = x.run().why != found
	}
	return nil, refusal
}
