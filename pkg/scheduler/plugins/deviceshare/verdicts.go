// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	"hash/maphash"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
)

// verdicts caches the verdicts of the allocator by request and devices, because many nodes are equal, and most have not
// changed since the last session. The verdict is the same if the requests, the devices and their use by pods are equal.
type verdicts struct {
	seed  maphash.Seed
	known map[verdictKey]*verdict
	// buffer is memory that is reused when keys are computed.
	buffer []byte
}

type verdictKey struct {
	// request is the key of the request, and devices the key of the inventory. use is the key of the use of these devices
	// by pods. context is a hash of the strategy's other inputs.
	request, devices, use, context uint64
}

// verdict is the result of checking a request on a node: a refusal, or else the score of the node from 0 to 100.
type verdict struct {
	refusal *allocator.Refusal
	score   float64
}

// mostVerdicts limits the cache to some 20 MB, if each cached refusal has one line of text.
const mostVerdicts = 100_000

func newVerdicts() *verdicts {
	return &verdicts{seed: maphash.MakeSeed(), known: map[verdictKey]*verdict{}}
}

// of returns the verdict on the request for the state of the node's devices. The state is ledger.now, or ledger.later,
// which leaves out pods that are leaving the node. of computes the verdict if it is not cached. The caller holds the
// session's mutex.
func (v *verdicts) of(request *request, ledger *ledger, state *allocator.State, on strategy) *verdict {
	key := verdictKey{request.key, ledger.inventory.key, v.useOf(ledger, state), on.context}
	if found := v.known[key]; found != nil {
		return found
	}
	if len(v.known) >= mostVerdicts {
		clear(v.known)
	}
	found := &verdict{}
	allocation, _, refusal := on.allocate(state, request.Request)
	if found.refusal = refusal; refusal == nil {
		found.score = on.options.Strategy.NodeScore(state, state.With(allocation))
	}
	v.known[key] = found
	return found
}

// useOf returns a key that describes how pods use the devices in the state: ledger.now, or ledger.later, which leaves
// out pods that are leaving the node. It computes the key once for each state.
func (v *verdicts) useOf(ledger *ledger, state *allocator.State) uint64 {
	known := &ledger.uses[0]
	if state == ledger.later {
		known = &ledger.uses[1]
	}
	if known.of != state {
		v.buffer = state.AppendUse(v.buffer[:0])
		*known = use{state, maphash.Bytes(v.seed, v.buffer)}
	}
	return known.key
}

// use holds a state of devices, and a key that describes how pods use the devices in this state.
type use struct {
	of  *allocator.State
	key uint64
}
