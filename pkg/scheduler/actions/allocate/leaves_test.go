// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestTheLeavesOfAGang checks that a gang that fits no leaf is placed on as few leaves as possible, and on leaves
// whose use keeps the other leaves free.
func TestTheLeavesOfAGang(t *testing.T) {
	const byLabel = leastRequested + "  - name: ibcluster\n    arguments:\n      ibcluster.levels: [ibcluster, leaf]\n      ibcluster.defaultMode: required\n"
	tests := map[string]struct {
		// leaves is the number of 4-CPU nodes of each leaf. pods is the maximum number of pods per node, 20 by
		// default.
		leaves   map[string]int
		pods     map[string]string
		requests []string
		conf     string
		// waits is a node where another pod waits for the resources of a terminating pod; empty for none.
		waits string
		want  map[string]int
	}{
		"the rest goes to the leaf that it fills": {
			leaves: map[string]int{"l1": 2, "l2": 2, "l3": 1}, requests: []string{"4", "4", "4"}, want: map[string]int{"l1": 2, "l3": 1},
		},
		"of equal leaves the first by name is taken": {
			leaves: map[string]int{"l1": 1, "l2": 2, "l3": 2, "l4": 2}, requests: []string{"4", "4", "4", "4"}, want: map[string]int{"l2": 2, "l3": 2},
		},
		"a leaf holds no more members than its nodes hold pods": {
			leaves: map[string]int{"l1": 1, "l2": 1, "l3": 1}, pods: map[string]string{"l1": "1", "l2": "2", "l3": "2"},
			requests: []string{"1", "1", "1"}, want: map[string]int{"l1": 1, "l2": 2},
		},
		"a pod that waits for a node's resources takes the place of a member": {
			leaves: map[string]int{"l1": 1, "l2": 1, "l3": 1}, pods: map[string]string{"l1": "2", "l2": "3", "l3": "1"},
			requests: []string{"500m", "500m", "500m"}, waits: "l2-0", want: map[string]int{"l1": 2, "l2": 1},
		},
		"small members share the leaf of the last large one, which is chosen with room for half of one": {
			leaves: map[string]int{"l1": 3, "l2": 2, "l3": 1}, requests: []string{"4", "4", "4", "4", "2"}, want: map[string]int{"l1": 3, "l2": 2},
		},
		"if scores are equal, the leaf with the least to spare is taken": {
			leaves: map[string]int{"l1": 4, "l2": 2, "l3": 3}, requests: []string{"4", "4"}, conf: byLabel + "      ibcluster.weight: 0\n", want: map[string]int{"l2": 2},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pods, podGroup := gang("g", tt.requests...)
			w := sessiontest.ClusterSpec{Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}}
			if tt.waits != "" {
				w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name("a").MinMember(1).Phase(v1beta1.PodGroupInqueue).Obj(),
					schedtest.MakePodGroup().Name("old").Phase(v1beta1.PodGroupRunning).Obj())
				three := schedtest.Resources{"cpu": "3"}
				w.Pods = append(w.Pods, schedtest.MakePod().Name("old-0").Group("old").Req(three).Node(tt.waits).Phase(v1.PodRunning).Terminating().Obj(),
					schedtest.MakePod().Name("a-0").Group("a").Req(three).NodeSelector(v1.LabelHostname, tt.waits).Obj())
			}
			leafOf := map[string]string{}
			for _, leaf := range slices.Sorted(maps.Keys(tt.leaves)) {
				for i := range tt.leaves[leaf] {
					name := fmt.Sprintf("%s-%d", leaf, i)
					leafOf[name] = leaf
					w.Nodes = append(w.Nodes, schedtest.MakeNode().Name(name).Label("ibcluster", "ib-a").Label("leaf", leaf).Label(v1.LabelHostname, name).
						Capacity(schedtest.Resources{"cpu": "4", "memory": "64Gi", "pods": cmp.Or(tt.pods[leaf], "20")}).Obj())
				}
			}
			if tt.conf == "" {
				tt.conf = byLabel
			}
			got := map[string]int{}
			for _, node := range run(t, w, tt.conf) {
				got[leafOf[node]]++
			}
			if diff := gocmp.Diff(tt.want, got); diff != "" {
				t.Errorf("members by leaf (-want +got):\n%s", diff)
			}
		})
	}
}
