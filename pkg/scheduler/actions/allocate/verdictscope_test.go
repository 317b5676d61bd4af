// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/utils/cpuset"
	"volcano.sh/apis/pkg/apis/batch/v1alpha1"
	nodeinfov1alpha1 "volcano.sh/apis/pkg/apis/nodeinfo/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/api/devices/nvidia/vgpu"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// with returns a configuration with the plugins after gang and predicates.
func with(plugins string) string {
	return "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n- plugins:\n  - name: predicates\n" + plugins
}

// TestUpstreamsPluginsAreAskedForEveryTask checks that these plugins of upstream are called for every task. Their
// filter results and scores change with placements elsewhere, or with the name of the pod. Equal members of one gang,
// and equal gangs, would be placed differently if they shared results.
func TestUpstreamsPluginsAreAskedForEveryTask(t *testing.T) {
	byName := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			Task struct{ Name string }
			Node struct{ Name string }
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer := map[string]string{}
		if wanted := map[string]string{"g-0": "b", "g-1": "a"}[request.Task.Name]; request.Node.Name != wanted {
			answer["status"] = "not for this pod"
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	defer byName.Close()

	together := func(pods ...*v1.Pod) []*v1.Pod { return pods }
	one := func(gang string) *v1beta1.PodGroup { return schedtest.MakePodGroup().Name(gang).Obj() }
	two := []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(2).Obj()}
	inRacks := []*topologyv1alpha1.HyperNode{
		schedtest.MakeHyperNode().Name("r").TierName("rack").Nodes("n1", "n4").Obj(), schedtest.MakeHyperNode().Name("s").TierName("rack").Nodes("n2", "n3").Obj(),
	}
	member := schedtest.MakePod().Group("g").Req(cores("1"))
	guaranteed := schedtest.MakePod().Group("g").Req(cores("2")).Limit(schedtest.Resources{"cpu": "2", "memory": "1Gi"})
	server := schedtest.MakePod().Group("g").Req(cores("1")).Phase(v1.PodRunning).Annotation(v1alpha1.TaskSpecKey, "ps")
	runTable(t, map[string]behaviour{
		"extender": {
			conf:            with("  - name: extender\n    arguments:\n      extender.urlPrefix: " + byName.URL + "\n      extender.httpTimeout: 10s\n      extender.predicateVerb: predicate\n"),
			world:           sessiontest.ClusterSpec{Nodes: nodes(holds("4"), "a", "b"), PodGroups: two, Pods: each(member, "g-0", "g-1")},
			binds:           map[string]string{"g-0": "b", "g-1": "a"},
			upstreamDiffers: "it takes one verdict for all members of a role",
		},
		"network-topology-aware, a gang": {
			conf:            with("  - name: network-topology-aware\n"),
			world:           sessiontest.ClusterSpec{Nodes: nodes(holds("1"), "n1", "n2", "n3", "n4"), HyperNodes: inRacks, PodGroups: two, Pods: each(member, "g-0", "g-1")},
			binds:           map[string]string{"g-0": "n1", "g-1": "n4"},
			upstreamDiffers: "it breaks ties by chance",
		},
		"network-topology-aware, two gangs": {
			conf: with("  - name: network-topology-aware\n"),
			world: sessiontest.ClusterSpec{Nodes: nodes(holds("1"), "n1", "n2", "n3", "n4"), HyperNodes: inRacks, PodGroups: []*v1beta1.PodGroup{one("g"), one("h")},
				Pods: together(member.Name("g-0").Obj(), schedtest.MakePod().Group("h").Req(cores("1")).Name("h-0").Obj())},
			binds:           map[string]string{"g-0": "n1", "h-0": "n4"},
			upstreamDiffers: "it breaks ties by chance",
		},
		"numa-aware": { // The node has two NUMA nodes of two CPUs but reports eight CPUs: a third member fits by resource counts only.
			conf: with("  - name: numa-aware\n"),
			world: sessiontest.ClusterSpec{Nodes: []*v1.Node{schedtest.MakeNode().Name("a").Capacity(schedtest.Resources{"cpu": "8", "memory": "8Gi", "pods": "20"}).Obj()}, PodGroups: two,
				Pods: each(guaranteed.Annotation(v1beta1.NumaPolicyKey, "single-numa-node"), "g-0", "g-1", "g-2")},
			prepare: func(c *sessiontest.Cluster) { giveNUMA(c, "a", 2) },
			binds:   map[string]string{"g-0": "a", "g-1": "a"},
		},
		"task-topology": { // Each worker scores the node of the parameter server in its own bucket.
			conf: with("  - name: task-topology\n"),
			world: sessiontest.ClusterSpec{
				Nodes: nodes(holds("2"), "a", "b", "c", "d"),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(4).
					Annotation("volcano.sh/task-topology-affinity", "ps,worker").Annotation("volcano.sh/task-topology-anti-affinity", "ps;worker").Obj()},
				Pods: append(each(member.Annotation(v1alpha1.TaskSpecKey, "worker"), "g-worker-0", "g-worker-1"),
					server.Name("g-ps-0").Node("c").Obj(), server.Name("g-ps-1").Node("d").Obj()),
			},
			binds: map[string]string{"g-worker-0": "c|d", "g-worker-1": "c|d"},
		},
	})
}

// TestPodsThatWantDevicesOfAKind checks that pods that request devices of one kind are in another class than equal
// pods that take any device, because deviceshare reads their annotations. A filter result for the former does not
// apply to the latter.
func TestPodsThatWantDevicesOfAKind(t *testing.T) {
	vgpu.VGPUEnable = true
	t.Cleanup(func() { vgpu.VGPUEnable = false })
	registered(t, vgpu.DeviceName)
	a, b := gpuNode("a"), gpuNode("b")
	b.Annotations["volcano.sh/node-vgpu-register"] = "GPU-b,10,1000,NVIDIA-A100,true,hami-core:"
	cases := map[string]behaviour{}
	for key, tc := range map[string]struct {
		value string
		binds map[string]string
	}{
		vgpu.GPUInUse:          {"A100", map[string]string{"choosy": "b", "plain": "a"}},
		vgpu.GPUNoUse:          {"V100", map[string]string{"choosy": "b", "plain": "a"}},
		vgpu.GPUModeAnnotation: {"mig", map[string]string{"plain": "a"}},
	} {
		cases[key] = behaviour{
			conf: with("  - name: deviceshare\n    arguments:\n      deviceshare.VGPUEnable: true\n"),
			world: sessiontest.ClusterSpec{
				Nodes:     []*v1.Node{a, b},
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").Obj(), schedtest.MakePodGroup().Name("h").Obj()},
				Pods:      []*v1.Pod{gpuPod("100").Annotation(key, tc.value).Name("choosy").Obj(), gpuPod("100").Group("h").Name("plain").Obj()},
			},
			binds:           tc.binds,
			upstreamDiffers: "it breaks ties by chance",
		}
	}
	runTable(t, cases)
}

// giveNUMA gives the node two NUMA nodes with the given CPUs each. The kubelet gives containers whole CPUs of them.
func giveNUMA(c *sessiontest.Cluster, node string, cpus int) {
	info := &api.NumatopoInfo{
		Policies:   map[nodeinfov1alpha1.PolicyName]string{nodeinfov1alpha1.CPUManagerPolicy: "static", nodeinfov1alpha1.TopologyManagerPolicy: "single-numa-node"},
		NumaResMap: map[string]*api.ResourceInfo{}, CPUDetail: topology.CPUDetails{}, ResReserved: v1.ResourceList{},
	}
	var all []int
	for cpu := range 2 * cpus {
		all = append(all, cpu)
		info.CPUDetail[cpu] = topology.CPUInfo{NUMANodeID: cpu / cpus, SocketID: cpu / cpus, CoreID: cpu}
	}
	info.NumaResMap["cpu"] = &api.ResourceInfo{Allocatable: cpuset.New(all...), Capacity: 2 * cpus}
	c.Cache().Nodes[node].NumaInfo = info
	c.Cache().Nodes[node].NumaChgFlag = api.NumaInfoMoreFlag
}
