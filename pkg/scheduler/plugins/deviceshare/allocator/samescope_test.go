// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestMembersWithEqualRequestsGetEqualScopes checks that members with equal requests have devices in equal scopes if a
// joint plan permits it, and in the narrowest such scope.
func TestMembersWithEqualRequestsGetEqualScopes(t *testing.T) {
	equal := 0
	for seed := range uint64(800) {
		r := rand.New(rand.NewPCG(seed, 10))
		node, pod := tightNode(r, 7+r.IntN(2), 0, false), &testPod{}
		pod.of[GPU] = testWant{count: 2 + r.IntN(2), percent: []int64{100, 100, 50}[r.IntN(3)]}
		members := 2 + r.IntN(2)
		allocations, refusal := AllocateTogether(node.state(t, seed), slices.Repeat([]*Request{parse(t, pod.pod())}, members), Options{})
		if refusal != nil {
			continue
		}
		var scopes []Scope
		for _, a := range allocations {
			c, err := node.choiceOf(a)
			if err != nil {
				t.Fatal(err)
			}
			scopes = append(scopes, scopeOf(c[GPU]))
		}
		narrowest, widest := slices.Min(scopes), slices.Max(scopes)
		if narrowest == widest {
			equal++
		}
		for scope := ScopePCIe; scope <= widest; scope++ {
			if scope == widest && narrowest == widest {
				break
			}
			if node.holdsAlikeIn(scope, pod, members) {
				t.Errorf("seed %d: %d members of %+v have devices in scopes %v, but a plan with scope %s for each exists", seed, members, pod.of[GPU], scopes, scope)
				break
			}
		}
	}
	if equal < 200 {
		t.Errorf("only %d gangs have equal scopes", equal)
	}
}
