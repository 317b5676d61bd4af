// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"testing"
	"time"
)

// Each test in this file is for a defect of upstream's bind path. TestRegressionMapOrder is for the defect map-order
// in docs/internals/upstream-defects.md, and so on.

// TestRegressionMapOrder: Upstream keeps pre-binders in a map and ranges over it, so their order, and that of their
// rollbacks, differs from pod to pod. Here eight plugins run in the given order in each of fifty pods.
func TestRegressionMapOrder(t *testing.T) {
	var pods []script
	var want []string
	for range 50 {
		pods = append(pods, script{steps: then(steps("a", "b", "c", "d", "e", "f", "g"), act{plugin: "h", err: errStep})})
		want = append(want, "a b c d e f g h -h -g -f -e -d -c -b -a released(h failed)")
	}
	scenario{minimum: 1, pods: pods, want: want}.play(t)
}

// TestRegressionNoSelfRollback: Upstream rolls back the pre-binders before the one that failed, but not the failed
// one, which may have done half of its work. In this test it wrote a reservation before the error.
func TestRegressionNoSelfRollback(t *testing.T) {
	reserved := act{plugin: "reserve", takes: time.Second, err: errStep}
	scenario{
		minimum: 1,
		pods:    []script{{steps: []act{{plugin: "first"}, reserved}}},
		want:    []string{"first reserve -reserve -first released(reserve failed)"},
	}.play(t)
}

// TestRegressionPartialGang: In upstream each pod of a gang is bound by itself. If the pre-bind of one pod fails in a
// gang of four that needs four, three are bound and stay. Here the barrier holds all of them back.
func TestRegressionPartialGang(t *testing.T) {
	well := script{steps: steps("a")}
	scenario{
		minimum: 4,
		pods:    []script{well, well, {steps: []act{{plugin: "a", takes: time.Second, err: errStep}}}, well},
		want: []string{
			"a -a released(no quorum)", "a -a released(no quorum)", "a -a released(a failed)", "a -a released(no quorum)",
		},
	}.play(t)
}
