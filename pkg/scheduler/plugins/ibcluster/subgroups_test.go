// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestSubGroupsInOneCluster checks that a cluster is permitted if it holds the required sub-groups, even if it does not
// hold all of them. Nodes have 4 cpu.
func TestSubGroupsInOneCluster(t *testing.T) {
	required := func(minMember int32) *schedtest.PodGroupBuilder { return gang("g", minMember, "mode=required") }
	// in returns pods of the sub-group, with this cpu.
	in := func(cell, cpu string, names ...string) []*v1.Pod {
		pods := sized(cpu, names...)
		for _, pod := range pods {
			pod.Labels = map[string]string{"cell": cell}
		}
		return pods
	}
	running := func(cell string, names ...string) []*v1.Pod {
		pods := members(names...)
		for _, pod := range pods {
			pod.Labels = map[string]string{"cell": cell}
			pod.Spec.Containers[0].Resources = big("x/0", "", "4").Spec.Containers[0].Resources
		}
		return pods
	}
	unset := required(2).SubGroups("cells", "cell", 0, 2).Obj()
	unset.Spec.SubGroupPolicy[0].MinSubGroups = nil
	tests := map[string]struct {
		nodes    []*v1.Node
		podGroup *v1beta1.PodGroup
		pods     []*v1.Pod
		want     string
	}{
		"none of them is needed by name, and one makes the minimum": {
			nodes("a1 ib-a", "a2 ib-a", "b1 ib-b"), unset,
			append(in("x", "4", "g/0", "g/1"), in("y", "4", "g/2", "g/3")...), "0:a1 1:a2",
		},
		"one of two is needed, and the first fits nowhere": {
			nodes("a1 ib-a", "a2 ib-a", "b1 ib-b"), required(2).SubGroups("cells", "cell", 1, 2).Obj(),
			append(in("x", "5", "g/0", "g/1"), in("y", "4", "g/2", "g/3")...), "2:a1 3:a2",
		},
		"one of two is needed, and the first is larger than any cluster": {
			nodes("a1 ib-a", "a2 ib-a", "b1 ib-b"), required(2).SubGroups("cells", "cell", 1, 2).SubGroups("rooms", "room", 0, 3).Obj(),
			append(in("x", "4", "g/0"), in("y", "4", "g/2", "g/3")...), "2:a1 3:a2",
		},
		"two of two are needed, and there is room for one": {
			nodes("a1 ib-a", "a2 ib-a", "b1 ib-b"), required(4).SubGroups("cells", "cell", 2, 2).Obj(),
			append(in("x", "4", "g/0", "g/1"), in("y", "4", "g/2", "g/3")...), "",
		},
		"one of two that are needed runs, and there is room for one of two others": {
			nodes("a1 ib-a", "a2 ib-a", "b1 ib-b", "b2 ib-b"), required(2).SubGroups("cells", "cell", 2, 1).Obj(),
			slices.Concat(running("x", "g/0@a1"), in("y", "4", "g/1"), in("z", "4", "g/2")), "1:a2",
		},
		"each has one more, and there is room for one of them": {
			nodes("a1 ib-a", "a2 ib-a", "a3 ib-a", "b1 ib-b", "b2 ib-b"), required(2).SubGroups("cells", "cell", 2, 1).Obj(),
			append(append(running("x", "g/0@a1"), running("y", "g/1@a2")...), append(in("x", "4", "g/2"), in("y", "4", "g/3")...)...), "2:a3",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := open(t, sessiontest.ClusterSpec{Nodes: tt.nodes, Pods: tt.pods, PodGroups: []*v1beta1.PodGroup{tt.podGroup}})
			f.allocate(t)
			if diff := cmp.Diff(tt.want, f.bindings("g")); diff != "" {
				t.Errorf("bindings (-want +got):\n%s\n%s", diff, f.job("g").JobFitErrors)
			}
		})
	}
}
