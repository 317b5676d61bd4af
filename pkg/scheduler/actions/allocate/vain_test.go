// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"fmt"
	"testing"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestAGangThatNumbersRefuseIsTriedOnceInAHyperNode: no other order of its members is tried there, as none can help.
func TestAGangThatNumbersRefuseIsTriedOnceInAHyperNode(t *testing.T) {
	const racks = 4
	tests := map[string]struct {
		requests []string
		bound    int
		most     int
	}{
		"refused by numbers": {requests: []string{"5", "4", "3", "2"}, most: racks * 3},
		"placed":             {requests: []string{"5", "3", "2"}, bound: 3, most: racks*3 + 3},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pods, podGroup := gang("g", tc.requests...)
			tier := 1
			podGroup.Spec.NetworkTopology = &v1beta1.NetworkTopologySpec{Mode: v1beta1.HardNetworkTopologyMode, HighestTierAllowed: &tier}
			w := sessiontest.World{Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}}
			for rack := range racks {
				names := []string{fmt.Sprintf("n%d-a", rack), fmt.Sprintf("n%d-b", rack)}
				w.Nodes = append(w.Nodes, node(names[0], "", "6"), node(names[1], "", "5"))
				w.HyperNodes = append(w.HyperNodes, schedtest.MakeHyperNode().Name(fmt.Sprintf("rack-%d", rack)).Nodes(names...).Obj())
			}
			if got := placements(t, w, tc.bound); got > tc.most {
				t.Errorf("%d members were placed in trials, want at most %d", got, tc.most)
			}
		})
	}
}

// placements counts the tasks that a session of the world places, also those that are taken back; so many are to be bound.
func placements(t *testing.T, w sessiontest.World, bound int) int {
	t.Helper()
	cluster := sessiontest.New(w)
	t.Cleanup(cluster.Close)
	registry := framework.NewRegistry()
	trials, count := 0, 0
	action := counted(registry, &trials)
	ssn := cluster.Open(registry, leastRequested+"\n  - name: network-topology-aware\n")
	defer ssn.Close()
	ssn.AddEventHandler(&vcframework.EventHandler{AllocateFunc: func(*vcframework.Event) { count++ }})
	ssn.Run(action)
	if got := len(ssn.Binds()); got != bound {
		t.Errorf("%d members bound, want %d", got, bound)
	}
	return count
}
