// SPDX-License-Identifier: Apache-2.0

package deviceshare_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestNoDeviceIsGivenTwice: gangs are created and end on few nodes, session after session. The test adds up the devices
// in their pods' annotations, and checks that gangs are placed whole or not at all.
func TestNoDeviceIsGivenTwice(t *testing.T) {
	shapes := []struct {
		resources schedtest.Resources
		change    []func(*v1.Pod)
	}{
		{resources: schedtest.Resources{"koordinator.sh/gpu": "100"}},
		{resources: schedtest.Resources{"koordinator.sh/gpu": "300"}},
		{resources: schedtest.Resources{"koordinator.sh/gpu-core": "30", "koordinator.sh/gpu-memory-ratio": "50"}},
		{resources: schedtest.Resources{"koordinator.sh/gpu-memory": "20Gi", "koordinator.sh/gpu-core": "20"}},
		{resources: schedtest.Resources{"koordinator.sh/gpu": "200", "koordinator.sh/rdma": "100"}, change: []func(*v1.Pod){jointly}},
		{resources: schedtest.Resources{"koordinator.sh/gpu": "400", "koordinator.sh/rdma": "50"}, change: []func(*v1.Pod){jointly}},
		{resources: schedtest.Resources{"koordinator.sh/rdma": "100"}},
		{resources: schedtest.Resources{"koordinator.sh/gpu": "200"}, change: []func(*v1.Pod){
			annotated(schedulingv1alpha1.DeviceAllocateHintAnnotation, `{"gpu":{"requiredTopologyScope":"PCIe"}}`)}},
		{},
	}
	strategies := []string{"", "{type: LeastAllocated}", "{type: MostAllocated}"}
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			nodes, devices := machines("n1", "n2", "n3")
			w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices})
			if strategy := strategies[int(seed)%len(strategies)]; strategy != "" {
				w.conf += "    arguments:\n      scoringStrategy: " + strategy + "\n"
			}
			var running, waiting []*v1.Pod
			podGroups := map[string]*v1beta1.PodGroup{}
			placed := 0
			for round := range 30 {
				running = slices.DeleteFunc(running, func(*v1.Pod) bool { return random.IntN(4) == 0 })
				for i := range 1 + random.IntN(3) {
					shape := shapes[random.IntN(len(shapes))]
					name := fmt.Sprintf("g%d-%d", round, i)
					podGroup, pods := gang(name, 1+random.IntN(4), shape.resources, shape.change...)
					// A member that is unlike the others.
					if other := shapes[random.IntN(len(shapes))]; random.IntN(3) == 0 {
						_, unlike := gang(name, len(pods), other.resources, other.change...)
						pods[len(pods)-1] = unlike[len(pods)-1]
					}
					podGroups[name] = podGroup
					waiting = append(waiting, pods...)
				}
				w.Load(sessiontest.ClusterSpec{Nodes: nodes, Pods: slices.Concat(running, waiting), PodGroups: slices.Collect(maps.Values(podGroups))})
				remembering := w.allocate(t)
				if seed%3 > 0 { // with these strategies, former sessions do not influence the result
					fresh := allocateIn(t, w.Open(w.registry, w.conf))
					if diff := cmp.Diff(fresh.decided, remembering.decided); diff != "" {
						t.Fatalf("round %d (-new plugins +plugins with caches):\n%s", round, diff)
					}
				}
				handed := remembering.handed
				members := map[string]int{}
				for _, pod := range waiting {
					if bind, ok := handed[pod.Namespace+"/"+pod.Name]; ok {
						pod = pod.DeepCopy()
						pod.Spec.NodeName, pod.Status.Phase = bind.Node, v1.PodRunning
						for key, value := range bind.Decided {
							annotated(key, value)(pod)
						}
						running = append(running, pod)
						members[pod.Annotations[v1beta1.KubeGroupNameAnnotationKey]]++
						placed++
					}
				}
				waiting = slices.DeleteFunc(waiting, func(pod *v1.Pod) bool { _, ok := handed[pod.Namespace+"/"+pod.Name]; return ok })
				for gang, n := range members {
					if want := int(podGroups[gang].Spec.MinMember); n != want {
						t.Fatalf("round %d: %d of %d members of %s are placed", round, n, want, gang)
					}
				}
				sumUp(t, running)
				if len(waiting) > 40 {
					waiting = nil
				}
			}
			if placed < 50 {
				t.Errorf("only %d pods were placed", placed)
			}
		})
	}
}

// sumUp checks that the pods use at most 100 % of each device, and that each pod has what it requests.
func sumUp(t *testing.T, pods []*v1.Pod) {
	t.Helper()
	used := map[string]int{}
	for _, pod := range pods {
		limits := pod.Spec.Containers[0].Resources.Limits
		annotation := pod.Annotations[schedulingv1alpha1.DeviceAllocatedAnnotation]
		var has map[string][]struct {
			Minor     int
			Resources map[string]string
		}
		if annotation != "" {
			if err := json.Unmarshal([]byte(annotation), &has); err != nil {
				t.Fatalf("%s: %v", pod.Name, err)
			}
		}
		wanted := func(name v1.ResourceName) int { q := limits[name]; return int(q.Value()) }
		if got, want := len(has["gpu"]) > 0, wanted("koordinator.sh/gpu")+wanted("koordinator.sh/gpu-core") > 0; got != want {
			t.Fatalf("pod %s has GPUs: %t, want %t", pod.Name, got, want)
		}
		core, roots, nics := 0, map[int]bool{}, map[int]bool{}
		for _, gpu := range has["gpu"] {
			for _, resource := range []string{"koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio"} {
				amount, _ := strconv.Atoi(gpu.Resources[resource])
				key := fmt.Sprintf("%s gpu %d %s", pod.Spec.NodeName, gpu.Minor, resource)
				if used[key] += amount; used[key] > 100 {
					t.Fatalf("%s: %d of 100 is in use", key, used[key])
				}
			}
			amount, _ := strconv.Atoi(gpu.Resources["koordinator.sh/gpu-core"])
			core += amount
			roots[gpu.Minor/2] = true
		}
		if want := wanted("koordinator.sh/gpu") + wanted("koordinator.sh/gpu-core"); core != want {
			t.Fatalf("pod %s has %d percent of GPUs, want %d", pod.Name, core, want)
		}
		for _, nic := range has["rdma"] {
			amount, _ := strconv.Atoi(nic.Resources["koordinator.sh/rdma"])
			key := fmt.Sprintf("%s rdma %d", pod.Spec.NodeName, nic.Minor)
			if used[key] += amount; used[key] > 100 {
				t.Fatalf("%s: %d of 100 is in use", key, used[key])
			}
			nics[nic.Minor] = true
		}
		if pod.Annotations[schedulingv1alpha1.DeviceJointAllocateAnnotation] != "" {
			for root := range roots {
				if !nics[root] {
					t.Fatalf("pod %s has GPUs on PCIe switch %d and no NIC there: %s", pod.Name, root, annotation)
				}
			}
		}
		if pod.Annotations[schedulingv1alpha1.DeviceAllocateHintAnnotation] != "" && len(roots) != 1 {
			t.Fatalf("pod %s has GPUs of PCIe switches %v, want one switch", pod.Name, roots)
		}
	}
}
