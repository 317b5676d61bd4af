// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// TestTheRestOfTheNodesIsOneDomain: what is known of a domain is known by the domain itself, so that a job that is looked at
// again and again must get the same one.
func TestTheRestOfTheNodesIsOneDomain(t *testing.T) {
	b := &board{everything: newDomain("", []int32{0, 1, 2}), remainders: map[string]*domain{}}
	for _, name := range []string{"a", "b", "c"} {
		b.nodes = append(b.nodes, &api.NodeInfo{Name: name})
	}
	rest := b.without([]string{"b", "x"})
	if diff := cmp.Diff([]int32{0, 2}, rest.nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if b.without([]string{"b", "x"}) != rest {
		t.Error("the same names gave another domain")
	}
	if diff := cmp.Diff([]int32{0, 1}, b.without([]string{"c"}).nodes); diff != "" {
		t.Errorf("nodes without c (-want +got):\n%s", diff)
	}
}
