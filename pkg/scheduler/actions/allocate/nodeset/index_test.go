// SPDX-License-Identifier: Apache-2.0

package nodeset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// TestTheRestOfTheNodesIsOneSet: what is kept of a set is kept by its pointer, so that a job that is looked at again and again
// must get the same one.
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
