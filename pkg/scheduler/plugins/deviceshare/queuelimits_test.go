// SPDX-License-Identifier: Apache-2.0

package deviceshare_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

func bounded(capability schedtest.Resources) *v1beta1.Queue {
	queue := schedtest.MakeQueue().Name("bounded").Obj()
	queue.Spec.Capability = v1.ResourceList{}
	for name, amount := range capability {
		queue.Spec.Capability[v1.ResourceName(name)] = resource.MustParse(amount)
	}
	return queue
}

// numbered adds GPUs under the vendors' resource names to the nodes.
func numbered(nodes []*v1.Node) []*v1.Node {
	for _, node := range nodes {
		for _, name := range []v1.ResourceName{"nvidia.com/gpu", "amd.com/gpu"} {
			node.Status.Allocatable[name], node.Status.Capacity[name] = resource.MustParse("8"), resource.MustParse("8")
		}
	}
	return nodes
}

// twoGPUs has all ways to limit a queue to two GPUs of 80Gi.
var twoGPUs = map[string]schedtest.Resources{
	"gpu":    {"koordinator.sh/gpu": "200"},
	"core":   {"koordinator.sh/gpu-core": "200"},
	"ratio":  {"koordinator.sh/gpu-memory-ratio": "200"},
	"bytes":  {"koordinator.sh/gpu-memory": "160Gi"},
	"nvidia": {"nvidia.com/gpu": "2"},
}

// oneGPU has all ways to request a whole GPU of 80Gi.
var oneGPU = map[string]schedtest.Resources{
	"gpu":             {"koordinator.sh/gpu": "100"},
	"core and ratio":  {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"},
	"core and bytes":  {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "80Gi"},
	"ratio":           {"koordinator.sh/gpu-memory-ratio": "100"},
	"bytes":           {"koordinator.sh/gpu-memory": "80Gi"},
	"shared by ratio": {"koordinator.sh/gpu.shared": "2", "koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"},
	"nvidia":          {"nvidia.com/gpu": "1"},
}

// TestCapabilitiesHoldAcrossFormsOfAsking checks that a queue's limit of two GPUs holds, whichever resource the limit
// and the pods name, in the session that places the pods and in the next session, in which they run.
func TestCapabilitiesHoldAcrossFormsOfAsking(t *testing.T) {
	for _, plugin := range []string{"capacity", "proportion"} {
		for limit, capability := range twoGPUs {
			for form, asks := range oneGPU {
				if plugin == "proportion" && limit != "core" {
					continue
				}
				if _, core := asks["koordinator.sh/gpu-core"]; limit == "core" && !core && form != "gpu" && form != "nvidia" {
					continue // a request for memory only needs no cores
				}
				t.Run(fmt.Sprintf("%s, limit by %s, pods by %s", plugin, limit, form), func(t *testing.T) {
					nodes, devices := machines("n1", "n2")
					podGroup, pods := gang("g", 8, asks)
					podGroup.Spec.Queue, podGroup.Spec.MinMember = "bounded", 1
					spec := sessiontest.ClusterSpec{Nodes: numbered(nodes), Devices: devices, Queues: []*v1beta1.Queue{bounded(capability)}, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods}
					placesTwoAtMost(t, spec, plugin)
				})
			}
		}
	}
}

// placesTwoAtMost checks that a session with the plugin places two pods, and that the next session, in which they run,
// places no more.
func placesTwoAtMost(t *testing.T, spec sessiontest.ClusterSpec, plugin string) {
	t.Helper()
	w := newTestCluster(t, spec)
	w.conf += "  - name: " + plugin + "\n"
	handed := w.allocate(t).handed
	if len(handed) != 2 {
		t.Fatalf("placed %d members, want 2", len(handed))
	}
	for _, pod := range spec.Pods {
		if bind, ok := handed[schedtest.Namespace+"/"+pod.Name]; ok {
			pod.Spec.NodeName, pod.Status.Phase = bind.Node, v1.PodRunning
			for key, value := range bind.Decided {
				annotated(key, value)(pod)
			}
		}
	}
	spec.Devices = nil
	w.Load(spec)
	if got := w.allocate(t).decided; len(got) != 0 {
		t.Errorf("placed %v beside two that run, want none", got)
	}
}

// TestAllWaysOfCountingAreHeldTo checks that a queue's limit counts all devices that a pod gets. This holds even if the
// pod requests fewer devices, or uses another resource name than the limit.
func TestAllWaysOfCountingAreHeldTo(t *testing.T) {
	joint := schedulingv1alpha1.DeviceJointAllocateAnnotation
	hint := schedulingv1alpha1.DeviceAllocateHintAnnotation
	tests := map[string]struct {
		capability, asks schedtest.Resources
		change           func(*v1.Pod)
		devices          func([]*schedulingv1alpha1.Device)
		want             int
	}{
		"NICs for all": {schedtest.Resources{"koordinator.sh/rdma": "11"}, schedtest.Resources{"koordinator.sh/rdma": "1"},
			annotated(hint, `{"rdma":{"allocateStrategy":"ApplyForAll"}}`), nil, 2},
		"NICs for all that are selected": {schedtest.Resources{"koordinator.sh/rdma": "8"}, schedtest.Resources{"koordinator.sh/rdma": "1"},
			annotated(hint, `{"rdma":{"allocateStrategy":"ApplyForAll","selector":{"matchLabels":{"fast":"yes"}}}}`), label(1, "fast"), 8},
		"a NIC on each root": {schedtest.Resources{"koordinator.sh/rdma": "8"}, schedtest.Resources{"koordinator.sh/gpu": "400", "koordinator.sh/rdma": "1"},
			annotated(joint, `{"deviceTypes":["gpu","rdma"]}`), nil, 3},
		"NICs by count": {schedtest.Resources{"koordinator.sh/rdma": "400"}, schedtest.Resources{"koordinator.sh/rdma": "2"},
			annotated(hint, `{"rdma":{"allocateStrategy":"RequestsAsCount","exclusivePolicy":"DeviceLevel"}}`), nil, 2},
		"half GPUs":        {schedtest.Resources{"nvidia.com/gpu": "2"}, schedtest.Resources{"koordinator.sh/gpu": "50"}, nil, nil, 4},
		"no GPU":           {schedtest.Resources{"nvidia.com/gpu": "0"}, schedtest.Resources{"koordinator.sh/gpu": "50"}, nil, nil, 0},
		"another vendor's": {schedtest.Resources{"amd.com/gpu": "0"}, schedtest.Resources{"nvidia.com/gpu": "1"}, nil, nil, 8},
		"the largest GPU": {schedtest.Resources{"koordinator.sh/gpu-memory": "160Gi"}, schedtest.Resources{"koordinator.sh/gpu": "100"}, nil,
			func(devices []*schedulingv1alpha1.Device) { resize(devices[1], "160Gi") }, 1},
		"a model that is allowed": {schedtest.Resources{"koordinator.sh/gpu-memory": "160Gi"}, schedtest.Resources{"koordinator.sh/gpu": "100"},
			func(pod *v1.Pod) {
				pod.Spec.NodeSelector = map[string]string{schedulingv1alpha1.GPUModelLabel: "small"}
			},
			func(devices []*schedulingv1alpha1.Device) {
				metav1.SetMetaDataLabel(&devices[0].ObjectMeta, schedulingv1alpha1.GPUModelLabel, "small")
				resize(devices[1], "160Gi")
			}, 2},
		"no limit on devices": {schedtest.Resources{"cpu": "50"}, schedtest.Resources{"koordinator.sh/gpu": "100"}, nil, nil, 8},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, devices := machines("n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8")
			metav1.SetMetaDataLabel(&nodes[0].ObjectMeta, schedulingv1alpha1.GPUModelLabel, "small")
			if tc.devices != nil {
				tc.devices(devices)
			}
			podGroup, pods := gang("g", 8, tc.asks)
			podGroup.Spec.Queue, podGroup.Spec.MinMember = "bounded", 1
			if tc.change != nil {
				for _, pod := range pods {
					tc.change(pod)
				}
			}
			w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: numbered(nodes), Devices: devices, Queues: []*v1beta1.Queue{bounded(tc.capability)}, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods})
			w.conf += "  - name: capacity\n"
			if got := w.allocate(t).decided; len(got) != tc.want {
				t.Errorf("placed %v, want %d", got, tc.want)
			}
		})
	}
}

// label adds the label to this number of NICs of each node.
func label(nics int, key string) func([]*schedulingv1alpha1.Device) {
	return func(devices []*schedulingv1alpha1.Device) {
		for _, device := range devices {
			for i := range nics {
				device.Spec.Devices[8+i].Labels = map[string]string{key: "yes"}
			}
		}
	}
}

func resize(device *schedulingv1alpha1.Device, memory string) {
	for i := range 8 {
		device.Spec.Devices[i].Resources["koordinator.sh/gpu-memory"] = resource.MustParse(memory)
	}
}

// TestAQueueThatIsOverGetsNoFurtherDevices checks that a queue above its limit gets no more devices, whatever resource
// exceeds the limit and whatever is requested. Pods without devices still run.
func TestAQueueThatIsOverGetsNoFurtherDevices(t *testing.T) {
	tests := map[string]struct {
		asks schedtest.Resources
		want int
	}{
		"GPUs":      {schedtest.Resources{"koordinator.sh/gpu": "100"}, 0},
		"NVIDIA's":  {schedtest.Resources{"nvidia.com/gpu": "1"}, 0},
		"NICs":      {schedtest.Resources{"koordinator.sh/rdma": "1"}, 0},
		"CPU alone": {nil, 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, devices := machines("n1", "n2")
			low, running := runs("running", schedtest.Resources{"koordinator.sh/gpu": "300"}, 0, 1, 2)
			low.Spec.Queue = "bounded"
			podGroup, pods := gang("g", 2, tc.asks)
			podGroup.Spec.Queue = "bounded"
			w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: numbered(nodes), Devices: devices, Queues: []*v1beta1.Queue{bounded(twoGPUs["core"])},
				PodGroups: []*v1beta1.PodGroup{low, podGroup}, Pods: append(pods, running)})
			w.conf += "  - name: capacity\n"
			if got := w.allocate(t).decided; len(got) != tc.want {
				t.Errorf("placed %v, want %d", got, tc.want)
			}
		})
	}
}

// TestAPodCountsForWhatItRequests: a pod counts with its request even if its annotation, which its owner may have
// written, lists fewer devices.
func TestAPodCountsForWhatItRequests(t *testing.T) {
	for requested, want := range map[string]int{"100": 1, "200": 0} {
		nodes, devices := machines("n1", "n2")
		holds, running := runs("running", schedtest.Resources{"koordinator.sh/gpu": requested}, 0)
		holds.Spec.Queue = "bounded"
		podGroup, pods := gang("g", 1, schedtest.Resources{"koordinator.sh/gpu": "100"})
		podGroup.Spec.Queue = "bounded"
		w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: numbered(nodes), Devices: devices, Queues: []*v1beta1.Queue{bounded(twoGPUs["core"])},
			PodGroups: []*v1beta1.PodGroup{holds, podGroup}, Pods: append(pods, running)})
		w.conf += "  - name: capacity\n"
		if got := w.allocate(t).decided; len(got) != want {
			t.Errorf("beside a pod that requests %s placed %v, want %d", requested, got, want)
		}
	}
}

// TestDeletedPodsCountAgainstTheLimitUntilTheyTerminate checks that a terminating pod counts through the job that holds
// deleted pods of its gang (framework.DeletedJob). In the gang's own job it does not count.
func TestDeletedPodsCountAgainstTheLimitUntilTheyTerminate(t *testing.T) {
	for standIn, want := range map[bool]int{true: 0, false: 2} {
		nodes, devices := machines("n1", "n2")
		gangOf := map[bool]string{true: string(framework.DeletedJob("running")), false: "running"}[standIn]
		leaving, running := runs(gangOf, schedtest.Resources{"koordinator.sh/gpu": "200"}, 0, 1)
		leaving.Spec.Queue, running.DeletionTimestamp = "bounded", &schedtest.Created
		podGroup, pods := gang("g", 2, schedtest.Resources{"koordinator.sh/gpu": "100"})
		podGroup.Spec.Queue = "bounded"
		w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: numbered(nodes), Devices: devices, Queues: []*v1beta1.Queue{bounded(twoGPUs["core"])},
			PodGroups: []*v1beta1.PodGroup{leaving, podGroup}, Pods: append(pods, running)})
		w.conf += "  - name: capacity\n"
		if got := w.allocate(t).decided; len(got) != want {
			t.Errorf("beside a pod of %s placed %v, want %d", gangOf, got, want)
		}
	}
}

// TestAQueueOfAQueueIsHeldToItsLimit checks the limit of a parent queue if the configuration enables the hierarchy of
// queues.
func TestAQueueOfAQueueIsHeldToItsLimit(t *testing.T) {
	nodes, devices := machines("n1")
	parent := bounded(twoGPUs["core"])
	child := schedtest.MakeQueue().Name("child").Obj()
	child.Spec.Parent, parent.Spec.Parent = "bounded", "root"
	podGroup, pods := gang("g", 4, oneGPU["nvidia"])
	podGroup.Spec.Queue, podGroup.Spec.MinMember = "child", 1
	w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: numbered(nodes), Devices: devices, Queues: []*v1beta1.Queue{schedtest.MakeQueue().Name("root").Obj(), parent, child},
		PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods})
	w.conf += "  - name: capacity\n    enableHierarchy: true\n"
	if got := w.allocate(t).decided; len(got) != 2 {
		t.Errorf("placed %v, want two pods", got)
	}
}

// TestRevertedTrialFreesTheQueueLimit: a gang that does not fit leaves the whole limit to the next gang.
func TestRevertedTrialFreesTheQueueLimit(t *testing.T) {
	nodes, devices := machines("n1")
	first, pods := gang("a", 3, oneGPU["nvidia"])
	second, others := gang("b", 2, oneGPU["nvidia"])
	first.Spec.Queue, second.Spec.Queue = "bounded", "bounded"
	w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: numbered(nodes), Devices: devices, Queues: []*v1beta1.Queue{bounded(twoGPUs["core"])},
		PodGroups: []*v1beta1.PodGroup{first, second}, Pods: append(pods, others...)})
	w.conf += "  - name: capacity\n"
	if got := w.allocate(t).decided; len(got) != 2 || got["b-0"] == "" {
		t.Errorf("placed %v, want b-0 and b-1", got)
	}
}

// TestNoPodIsReclaimedForAQueueAtItsLimit checks that action reclaim evicts no pod for a pending pod that the limit of
// its queue keeps from being placed.
func TestNoPodIsReclaimedForAQueueAtItsLimit(t *testing.T) {
	nodes, devices := machines("n1")
	deserves := func(queue *v1beta1.Queue, gpus string) *v1beta1.Queue {
		queue.Spec.Deserved = v1.ResourceList{"cpu": resource.MustParse("48"), "memory": resource.MustParse("512Gi"), "nvidia.com/gpu": resource.MustParse(gpus)}
		queue.Spec.Reclaimable = new(true)
		return queue
	}
	podGroup, pods := gang("g", 1, oneGPU["nvidia"])
	podGroup.Spec.Queue = "bounded"
	own, running := runs("own", oneGPU["nvidia"], 0)
	own.Spec.Queue = "bounded"
	podGroups, pods := []*v1beta1.PodGroup{podGroup, own}, append(pods, running)
	for i := range 7 {
		low, pod := runs(fmt.Sprint("low-", i), oneGPU["nvidia"], i+1)
		low.Spec.Queue = "theirs"
		podGroups, pods = append(podGroups, low), append(pods, pod)
	}
	for limit, want := range map[string]int{"100": 0, "200": 1} {
		queues := []*v1beta1.Queue{deserves(bounded(schedtest.Resources{"koordinator.sh/gpu-core": limit}), "4"), deserves(schedtest.MakeQueue().Name("theirs").Obj(), "4")}
		w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: numbered(nodes), Devices: devices, Queues: queues, PodGroups: podGroups, Pods: pods})
		w.conf += "  - name: capacity\n"
		ssn := w.run("allocate", "reclaim")
		if got := ssn.Evicts(); len(got) != want {
			t.Errorf("limit %s: evicted %v, want %d", limit, got, want)
		}
		ssn.Close()
	}
}
