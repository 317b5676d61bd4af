// SPDX-License-Identifier: Apache-2.0

package testing

import (
	"fmt"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"
)

// AddRandomGangs adds three nodes, two queues and random gangs to the cache.
func AddRandomGangs(c *vccache.SchedulerCache, r *rand.Rand) error {
	for i := range 3 {
		node := MakeNode().Name(fmt.Sprintf("n%d", i)).Capacity(Resources{"cpu": "200", "memory": "400Gi", "nvidia.com/gpu": "64", "pods": "200"}).Obj()
		if err := c.AddOrUpdateNode(node); err != nil {
			return err
		}
	}
	for i := range 2 {
		queue := MakeQueue().Name(fmt.Sprintf("q%d", i)).Capability(Resources{"cpu": fmt.Sprint(20 + r.IntN(200))})
		c.AddQueueV1beta1(queue.Obj())
	}
	phases := []v1beta1.PodGroupPhase{v1beta1.PodGroupPending, v1beta1.PodGroupInqueue, v1beta1.PodGroupRunning, v1beta1.PodGroupRunning}
	for g := range 8 {
		name, size := fmt.Sprintf("g%d", g), r.IntN(12)
		group := MakePodGroup().Name(name).MinMember(int32(1 + r.IntN(8))).Queue(fmt.Sprintf("q%d", r.IntN(2))).Phase(phases[r.IntN(len(phases))])
		if r.IntN(2) == 0 {
			group.MinResources(Resources{"cpu": fmt.Sprint(1 + r.IntN(40)), "nvidia.com/gpu": fmt.Sprint(r.IntN(9))})
		}
		c.AddPodGroupV1beta1(group.Obj())
		for i := range size {
			c.AddPod(randomMember(r, name, fmt.Sprintf("%s-%d", name, i)))
		}
	}
	return nil
}

// randomMember returns a pod of the gang that waits, has a gate, runs, terminates or has ended.
func randomMember(r *rand.Rand, gang, name string) *v1.Pod {
	requests := Resources{"cpu": fmt.Sprintf("%dm", 100+r.IntN(5000)), "memory": fmt.Sprintf("%dMi", 1+r.IntN(5000))}
	if gpus := r.IntN(5); gpus < 3 {
		requests["nvidia.com/gpu"] = fmt.Sprint(gpus)
	}
	pod := MakePod().Name(name).UID(name).Group(gang).Req(requests)
	switch r.IntN(8) {
	case 0:
	case 1:
		gated := pod.Obj()
		gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/wait"}}
		return gated
	case 2:
		pod.Node("n1").Phase(v1.PodSucceeded)
	case 3:
		pod.Node("n2").Phase(v1.PodRunning).Terminating()
	default:
		pod.Node(fmt.Sprintf("n%d", r.IntN(3))).Phase(v1.PodRunning)
	}
	return pod.Obj()
}
