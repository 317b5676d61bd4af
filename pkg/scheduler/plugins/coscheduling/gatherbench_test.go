// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// BenchmarkGather measures a session of allocate that places a gang of 512 members on 5,000 nodes in 40 blocks.
func BenchmarkGather(b *testing.B) {
	var nodes []*v1.Node
	for i := range 5_000 {
		nodes = append(nodes, schedtest.MakeNode().Name(fmt.Sprintf("n%04d", i)).Label("spine", fmt.Sprintf("s%d", i/1000)).Label("block", fmt.Sprintf("b%02d", i/125)).
			Capacity(schedtest.Resources{"cpu": "32", "memory": "256Gi", "pods": "110"}).Obj())
	}
	var pods []*v1.Pod
	for i := range 512 {
		pods = append(pods, schedtest.MakePod().Name(fmt.Sprintf("g-%d", i)).Group("g").Req(schedtest.Resources{"cpu": "4"}).Obj())
	}
	for name, tt := range map[string]struct {
		asks  map[string]string
		bound int
	}{
		"one block":             {asks("Block must"), 512},
		"one block, in eights":  {asks("Block must", "NodeTopologyLayer prefer 8"), 512},
		"anywhere, in eights":   {asks("NodeTopologyLayer - 8"), 512},
		"one node, which is no": {asks("NodeTopologyLayer must"), 0},
		"it does not ask":       {nil, 512},
	} {
		b.Run(name, func(b *testing.B) {
			cluster := sessiontest.New(sessiontest.ClusterSpec{Nodes: nodes, Pods: pods, PodGroups: []*v1beta1.PodGroup{gangNamed("g", 512, tt.asks)}})
			defer cluster.Close()
			registry := framework.NewRegistry()
			registry.RegisterPlugin(specWith(func(framework.Handle) (*v1alpha1.ClusterNetworkTopology, error) { return spines, nil }))
			registry.RegisterAction(allocate.New())
			action, _ := vcframework.GetAction("allocate")
			b.ResetTimer()
			for range b.N {
				b.StopTimer()
				ssn := cluster.Open(registry, gatherConf)
				b.StartTimer()
				ssn.Run(action)
				b.StopTimer()
				if n := len(ssn.Binds()); n != tt.bound {
					b.Fatalf("%d members are bound, want %d", n, tt.bound)
				}
				ssn.Close()
				b.StartTimer()
			}
		})
	}
}
