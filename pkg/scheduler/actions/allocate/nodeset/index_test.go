// SPDX-License-Identifier: Apache-2.0

package nodeset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// TestTheRestOfTheNodesIsOneSet checks that the set of the remaining nodes is always the same object. Cached results
// of a set are found by its pointer, so a job that is tried repeatedly must get the same set.
func TestTheRestOfTheNodesIsOneSet(t *testing.T) {
	x := &Index{All: newSet("", []int32{0, 1, 2}), remainders: map[string]*Set{}}
	for _, name := range []string{"a", "b", "c"} {
		x.Nodes = append(x.Nodes, &api.NodeInfo{Name: name})
	}
	rest := x.Without([]string{"b", "x"})
	if diff := cmp.Diff([]int32{0, 2}, rest.Nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if x.Without([]string{"b", "x"}) != rest {
		t.Error("the same names gave another set")
	}
	if diff := cmp.Diff([]int32{0, 1}, x.Without([]string{"c"}).Nodes); diff != "" {
		t.Errorf("nodes without c (-want +got):\n%s", diff)
	}
}
