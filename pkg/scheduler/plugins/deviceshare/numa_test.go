// SPDX-License-Identifier: Apache-2.0

package deviceshare_test

import (
	"cmp"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/utils/cpuset"
	nodeinfov1alpha1 "volcano.sh/apis/pkg/apis/nodeinfo/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestDevicesAreWhereTheCPUsAre checks that a pod with a NUMA policy gets devices of a NUMA node with enough free CPUs,
// on a node that reports its CPUs.
func TestDevicesAreWhereTheCPUsAre(t *testing.T) {
	const noNUMANode = "0/1 members fit: 1 node short of NUMA Scoped Devices: no NUMA node has both the CPUs and the devices free" +
		"0/1 nodes are unavailable: 1 Insufficient NUMA Scoped Devices: no NUMA node has both the CPUs and the devices free."
	tests := map[string]struct {
		policy, gpus, arguments string
		// kubelet is the topology manager policy of the node's kubelet.
		kubelet string
		// free is the number of free CPUs of each NUMA node.
		free map[int]int
		want string
		said string
	}{
		"no policy":                      {gpus: "200", free: map[int]int{0: 0, 1: 8}, want: "n1: gpu 0,1"},
		"CPUs on the second":             {policy: "single-numa-node", gpus: "200", free: map[int]int{0: 0, 1: 8}, want: "n1: gpu 4,5"},
		"CPUs on both":                   {policy: "single-numa-node", gpus: "200", free: map[int]int{0: 8, 1: 8}, want: "n1: gpu 0,1"},
		"CPUs on none":                   {policy: "single-numa-node", gpus: "200", free: map[int]int{0: 0, 1: 0}, said: noNUMANode},
		"more GPUs than a NUMA node has": {policy: "single-numa-node", gpus: "600", free: map[int]int{0: 8, 1: 8}, said: noNUMANode},
		"a policy that is a wish":        {policy: "best-effort", gpus: "200", free: map[int]int{0: 0, 1: 8}, want: "n1: gpu 4,5"},
		"a wish that cannot be":          {policy: "best-effort", gpus: "600", free: map[int]int{0: 8, 1: 8}, want: "n1: gpu 0,1,2,3,4,5"},
		"a policy that is not looked at": {policy: "single-numa-node", gpus: "200", free: map[int]int{0: 0, 1: 8}, arguments: "disableDeviceNUMATopologyAlignment: true", want: "n1: gpu 0,1"},
		"a kubelet that aligns nothing":  {policy: "single-numa-node", gpus: "200", free: map[int]int{0: 0, 1: 8}, kubelet: "none", want: "n1: gpu 0,1"},
		"a policy, and unknown CPUs":     {policy: "single-numa-node", gpus: "200", want: "n1: gpu 0,1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, devices := machines("n1")
			podGroup, pods := gang("g", 1, schedtest.Resources{"koordinator.sh/gpu": tc.gpus})
			if tc.policy != "" {
				annotated(v1beta1.NumaPolicyKey, tc.policy)(pods[0])
			}
			w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods})
			if tc.arguments != "" {
				w.conf += "    arguments: {" + tc.arguments + "}\n"
			}
			if tc.free != nil {
				info := numaInfo(tc.free)
				info.Policies[nodeinfov1alpha1.TopologyManagerPolicy] = cmp.Or(tc.kubelet, "single-numa-node")
				w.Cache().Nodes["n1"].NumaInfo = info
				w.Cache().Nodes["n1"].NumaChgFlag = api.NumaInfoMoreFlag
			}
			got := w.allocate(t)
			want := map[string]string{}
			if tc.want != "" {
				want["g-0"] = tc.want
			}
			if diff := gocmp.Diff(want, got.decided); diff != "" {
				t.Errorf("decided (-want +got):\n%s", diff)
			}
			if diff := gocmp.Diff(tc.said, got.said["g-0"]); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMembersOfASessionSeeEachOthersCPUs: CPUs that the session gave to one member are not free for the next one, even
// if the NUMA node has free devices.
func TestMembersOfASessionSeeEachOthersCPUs(t *testing.T) {
	tests := map[string]struct {
		policy string
		free   map[int]int
		limit  string
		cpu    string
		want   map[string]string
	}{
		"one CPU on each":          {free: map[int]int{0: 1, 1: 1}, want: map[string]string{"g-0": "n1: gpu 0,1", "g-1": "n1: gpu 4,5"}},
		"two on the first":         {free: map[int]int{0: 2, 1: 1}, want: map[string]string{"g-0": "n1: gpu 0,1", "g-1": "n1: gpu 2,3"}},
		"one in all":               {free: map[int]int{0: 1, 1: 0}, want: map[string]string{}},
		"CPUs that others run on":  {free: map[int]int{0: 1, 1: 1}, limit: "2", want: map[string]string{"g-0": "n1: gpu 0,1", "g-1": "n1: gpu 2,3"}},
		"parts of CPUs":            {free: map[int]int{0: 2, 1: 2}, cpu: "1500m", want: map[string]string{"g-0": "n1: gpu 0,1", "g-1": "n1: gpu 2,3"}},
		"a wish, one CPU on each":  {policy: "best-effort", free: map[int]int{0: 1, 1: 1}, want: map[string]string{"g-0": "n1: gpu 0,1", "g-1": "n1: gpu 4,5"}},
		"a wish that one can have": {policy: "best-effort", free: map[int]int{0: 0, 1: 1}, want: map[string]string{"g-0": "n1: gpu 4,5", "g-1": "n1: gpu 6,7"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, devices := machines("n1")
			podGroup, pods := gang("g", 2, schedtest.Resources{"koordinator.sh/gpu": "200", "cpu": cmp.Or(tc.cpu, "1")}, annotated(v1beta1.NumaPolicyKey, cmp.Or(tc.policy, "single-numa-node")))
			if tc.limit != "" {
				for _, pod := range pods {
					pod.Spec.Containers[0].Resources.Limits["cpu"] = resource.MustParse(tc.limit)
				}
			}
			w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods})
			w.Cache().Nodes["n1"].NumaInfo = numaInfo(tc.free)
			w.Cache().Nodes["n1"].NumaChgFlag = api.NumaInfoMoreFlag
			if diff := gocmp.Diff(tc.want, w.allocate(t).decided); diff != "" {
				t.Errorf("decided (-want +got):\n%s", diff)
			}
		})
	}
}

// TestVerdictsOfOneNodeAreNotUsedForAnother checks that a cached result is not used for a node whose free CPUs are
// elsewhere, nor for a pod with another policy.
func TestVerdictsOfOneNodeAreNotUsedForAnother(t *testing.T) {
	nodes, devices := machines("n1", "n2")
	used := []int{4, 5, 6, 7}
	podGroup, pods := gang("g", 2, schedtest.Resources{"koordinator.sh/gpu": "100"})
	annotated(v1beta1.NumaPolicyKey, "single-numa-node")(pods[0])
	annotated(v1beta1.NumaPolicyKey, "best-effort")(pods[1])
	w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup},
		Pods: append(pods, runningWith("a", "n1", "100", used...), runningWith("b", "n2", "100", used...))})
	for node, free := range map[string]map[int]int{"n1": {0: 0, 1: 8}, "n2": {0: 8, 1: 0}} {
		w.Cache().Nodes[node].NumaInfo = numaInfo(free)
		w.Cache().Nodes[node].NumaChgFlag = api.NumaInfoMoreFlag
	}
	w.conf = devicesAlone
	ssn := w.next(t)
	defer ssn.Close()
	tasks := tasksOf(ssn)
	for _, node := range []string{"n1", "n2"} { // best-effort accepts both nodes, and single-numa-node only n2
		if err := ssn.PredicateFn(tasks["g-1"], ssn.Nodes[node]); err != nil {
			t.Errorf("the pod with policy best-effort on %s: %v", node, err)
		}
		if err := ssn.PredicateFn(tasks["g-0"], ssn.Nodes[node]); (err == nil) != (node == "n2") {
			t.Errorf("the pod with policy single-numa-node on %s: %v", node, err)
		}
	}
}

// numaInfo describes a node whose NUMA nodes have eight CPUs each, with these numbers free.
func numaInfo(free map[int]int) *api.NumatopoInfo {
	info := &api.NumatopoInfo{
		Policies:   map[nodeinfov1alpha1.PolicyName]string{nodeinfov1alpha1.CPUManagerPolicy: "static", nodeinfov1alpha1.TopologyManagerPolicy: "single-numa-node"},
		NumaResMap: map[string]*api.ResourceInfo{}, CPUDetail: topology.CPUDetails{}, ResReserved: v1.ResourceList{},
	}
	var idle []int
	for numa, n := range free {
		for i := range 8 {
			cpu := 8*numa + i
			info.CPUDetail[cpu] = topology.CPUInfo{NUMANodeID: numa, SocketID: numa, CoreID: cpu}
			if i < n {
				idle = append(idle, cpu)
			}
		}
	}
	info.NumaResMap["cpu"] = &api.ResourceInfo{Allocatable: cpuset.New(idle...), Capacity: 16}
	return info
}
