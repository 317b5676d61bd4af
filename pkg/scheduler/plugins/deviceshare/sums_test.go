// SPDX-License-Identifier: Apache-2.0

package deviceshare_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// runs returns a preemptable pod in its own gang. The pod requests asks and has the whole GPUs with these minors on
// node n1.
func runs(name string, asks schedtest.Resources, minors ...int) (*v1beta1.PodGroup, *v1.Pod) {
	pod := runningWith(name, "n1", "100", minors...)
	limits := schedtest.Resources{"cpu": "1"}
	maps.Copy(limits, asks)
	pod.Spec.Containers[0].Resources = schedtest.MakePod().Req(limits).Limit(limits).Obj().Spec.Containers[0].Resources
	annotated(v1beta1.KubeGroupNameAnnotationKey, name)(pod)
	annotated("volcano.sh/preemptable", "true")(pod)
	return schedtest.MakePodGroup().Name(name).MinMember(0).Phase(v1beta1.PodGroupRunning).Obj(), pod
}

var highPriority = []*schedulingv1.PriorityClass{schedtest.PriorityClass("high", 1000)}

// high returns a gang of one pod with a high priority.
func high(asks schedtest.Resources, change ...func(*v1.Pod)) (*v1beta1.PodGroup, []*v1.Pod) {
	podGroup, pods := gang("high", 1, asks, append(change, func(pod *v1.Pod) { pod.Spec.Priority = new(int32(1000)) })...)
	podGroup.Spec.PriorityClassName = "high"
	return podGroup, pods
}

// run runs the actions, of upstream and ours, in one session.
func (w *testCluster) run(actions ...string) *sessiontest.Session {
	w.conf = strings.Replace(w.conf, "actions: allocate", fmt.Sprintf("actions: %q", strings.Join(actions, ", ")), 1)
	ssn := w.Open(w.registry, w.conf)
	for _, name := range actions {
		action, _ := vcframework.GetAction(name)
		ssn.Run(action)
	}
	return ssn
}

// TestVictimsAreChosenBySumsOfDevices checks that victims are found for each form of request for GPUs, whatever the
// form of the victims' requests is.
func TestVictimsAreChosenBySumsOfDevices(t *testing.T) {
	halves := map[string]schedtest.Resources{
		"gpu":              {"koordinator.sh/gpu": "400"},
		"core and ratio":   {"koordinator.sh/gpu-core": "400", "koordinator.sh/gpu-memory-ratio": "400"},
		"ratio alone":      {"koordinator.sh/gpu-memory-ratio": "400"},
		"shared by number": {"koordinator.sh/gpu.shared": "4", "koordinator.sh/gpu-memory-ratio": "400"},
		"vendor's":         {"nvidia.com/gpu": "4"},
	}
	wholes := map[string]schedtest.Resources{
		"gpu":            {"koordinator.sh/gpu": "800"},
		"core and ratio": {"koordinator.sh/gpu-core": "800", "koordinator.sh/gpu-memory-ratio": "800"},
		"ratio alone":    {"koordinator.sh/gpu-memory-ratio": "800"},
	}
	for has, half := range halves {
		for wants, whole := range wholes {
			t.Run(wants+" for "+has, func(t *testing.T) {
				nodes, devices := machines("n1")
				first, a := runs("low-0", half, 0, 1, 2, 3)
				second, b := runs("low-1", half, 4, 5, 6, 7)
				podGroup, pods := high(whole)
				w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{first, second, podGroup},
					Pods: append(pods, a, b), PriorityClasses: highPriority})
				ssn := w.run("allocate", "preempt")
				defer ssn.Close()
				if diff := cmp.Diff(map[string]string{schedtest.Namespace + "/high-0": "n1"}, ssn.Pipelined()); diff != "" {
					t.Errorf("pods that wait for victims to terminate (-want +got):\n%s", diff)
				}
				if got := ssn.Evicts(); len(got) != 2 {
					t.Errorf("evicted %v, want both pods", got)
				}
			})
		}
	}
}

// TestDevicesAreReclaimed checks that as many devices as requested are reclaimed from a queue that has more than it
// deserves.
func TestDevicesAreReclaimed(t *testing.T) {
	nodes, devices := machines("n1")
	queue := func(name, gpus string) *v1beta1.Queue {
		q := schedtest.MakeQueue().Name(name).Obj()
		q.Spec.Deserved = v1.ResourceList{"cpu": resource.MustParse("48"), "memory": resource.MustParse("512Gi"),
			"koordinator.sh/gpu-core": resource.MustParse(gpus), "koordinator.sh/gpu-memory-ratio": resource.MustParse(gpus)}
		q.Spec.Reclaimable = new(true)
		return q
	}
	var podGroups []*v1beta1.PodGroup
	podGroup, pods := gang("g", 1, schedtest.Resources{"koordinator.sh/gpu": "600"})
	podGroup.Spec.Queue = "ours"
	for i := range 8 {
		low, pod := runs(fmt.Sprint("low-", i), schedtest.Resources{"koordinator.sh/gpu": "100"}, i)
		low.Spec.Queue = "theirs"
		podGroups, pods = append(podGroups, low), append(pods, pod)
	}
	w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, Queues: []*v1beta1.Queue{queue("ours", "600"), queue("theirs", "200")},
		PodGroups: append(podGroups, podGroup), Pods: pods})
	w.conf += "  - name: capacity\n"
	ssn := w.run("allocate", "reclaim")
	defer ssn.Close()
	if got := ssn.Evicts(); len(got) != 6 {
		t.Errorf("evicted %v, want six pods", got)
	}
	if diff := cmp.Diff(map[string]string{schedtest.Namespace + "/g-0": "n1"}, ssn.Pipelined()); diff != "" {
		t.Errorf("pods that wait for victims to terminate (-want +got):\n%s", diff)
	}
}

// TestQueuesAreBoundedInDevices checks that a queue admits no more pods than its capability in devices permits, for
// several forms of requests.
func TestQueuesAreBoundedInDevices(t *testing.T) {
	for name, asks := range map[string]schedtest.Resources{
		"gpu":            {"koordinator.sh/gpu": "100"},
		"core and ratio": {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "50"},
		"NICs":           {"koordinator.sh/gpu": "50", "koordinator.sh/rdma": "50"},
	} {
		t.Run(name, func(t *testing.T) {
			nodes, devices := machines("n1", "n2")
			queue := schedtest.MakeQueue().Name("bounded").Obj()
			queue.Spec.Capability = v1.ResourceList{"koordinator.sh/gpu-core": resource.MustParse("300"), "koordinator.sh/rdma": resource.MustParse("150")}
			podGroup, pods := gang("g", 5, asks)
			podGroup.Spec.Queue, podGroup.Spec.MinMember = "bounded", 1
			w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, Queues: []*v1beta1.Queue{queue}, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods})
			w.conf += "  - name: capacity\n"
			if got := w.allocate(t).decided; len(got) != 3 {
				t.Errorf("placed %v, want three members", got)
			}
		})
	}
}

// TestResourcesOfVictimsAreForTheirPreemptor: a pod that lacks only devices waits, pipelined on a node, for a
// terminating pod. A pod of lower priority does not get the free devices of that node.
func TestResourcesOfVictimsAreForTheirPreemptor(t *testing.T) {
	nodes, devices := machines("n1")
	leaving := runningWith("leaving", "n1", "100", 4, 5, 6, 7)
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	podGroup, pods := high(schedtest.Resources{"koordinator.sh/gpu": "800"})
	low, lows := gang("low", 1, schedtest.Resources{"koordinator.sh/gpu": "100"})
	w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup, low}, Pods: append(append(pods, lows...), leaving),
		PriorityClasses: highPriority})
	ssn := w.run("allocate")
	defer ssn.Close()
	if diff := cmp.Diff(map[string]string{schedtest.Namespace + "/high-0": "n1"}, ssn.Pipelined()); diff != "" {
		t.Errorf("pipelined pods (-want +got):\n%s", diff)
	}
	if got := ssn.Binds(); len(got) > 0 {
		t.Errorf("placed %v, want none", got)
	}
}

// TestDevicesThatWillBeFreeAreReported checks the message of a pod for which enough devices are free, but not in one
// NUMA node until other pods have ended.
func TestDevicesThatWillBeFreeAreReported(t *testing.T) {
	nodes, devices := machines("n1")
	leaving := runningWith("leaving", "n1", "100", 0, 1)
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	podGroup, pods := gang("g", 1, schedtest.Resources{"koordinator.sh/gpu": "400"}, annotated(schedulingv1alpha1.DeviceAllocateHintAnnotation, `{"gpu":{"requiredTopologyScope":"NUMANode"}}`))
	w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: append(pods, leaving, runningWith("lasting", "n1", "100", 4, 5))})
	const refused = "0/1 members fit: 1 node short of Topology Scoped GPU Devices: 4 requested on one NUMA node, 4 GPUs free, at m... (and 63 bytes more)" +
		"0/1 nodes are unavailable: 1 Insufficient Topology Scoped GPU Devices: 4 requested on one NUMA node, 4 GPUs free, at most 2 on one; there are enough once terminating pods have ended."
	if said := w.allocate(t).said["g-0"]; said != refused {
		t.Errorf("message %q, want %q", said, refused)
	}
}

// TestNoPodIsEvictedUnsuccessfully checks that no pods are evicted if the number of freed devices would suffice, but
// these devices would not satisfy the request of the preemptor.
func TestNoPodIsEvictedUnsuccessfully(t *testing.T) {
	nodes, devices := machines("n1")
	lasting := runningWith("lasting", "n1", "100", 0, 4)
	first, a := runs("low-0", schedtest.Resources{"koordinator.sh/gpu": "300"}, 1, 2, 3)
	second, b := runs("low-1", schedtest.Resources{"koordinator.sh/gpu": "300"}, 5, 6, 7)
	podGroup, pods := high(schedtest.Resources{"koordinator.sh/gpu": "400"}, annotated(schedulingv1alpha1.DeviceAllocateHintAnnotation, `{"gpu":{"requiredTopologyScope":"NUMANode"}}`))
	w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{first, second, podGroup},
		Pods: append(pods, lasting, a, b), PriorityClasses: highPriority})
	ssn := w.run("allocate", "preempt")
	defer ssn.Close()
	if got := ssn.Evicts(); len(got) > 0 {
		t.Errorf("evicted %v, want none", got)
	}
}

// TestSumsRefuseNothingThatFits checks that a pod is placed whenever suitable devices are free. In most cases, the sums
// of requests and of capacity differ from the devices that are really used and free.
func TestSumsRefuseNothingThatFits(t *testing.T) {
	all := func(name string, change ...func(*v1.Pod)) *v1.Pod {
		pod := runningWith(name, "n1", "100", 0, 1, 2, 3, 4, 5, 6, 7)
		for _, do := range change {
			do(pod)
		}
		return pod
	}
	tests := map[string]struct {
		change func(*v1.Node, *schedulingv1alpha1.Device)
		there  []*v1.Pod
		asks   schedtest.Resources
		hint   string
		want   bool
	}{
		"a free node":                   {asks: schedtest.Resources{"koordinator.sh/gpu": "800"}, want: true},
		"a pod that was given none":     {there: []*v1.Pod{all("p", annotated(schedulingv1alpha1.DeviceAllocatedAnnotation, ""))}, asks: schedtest.Resources{"koordinator.sh/gpu": "800"}, want: true},
		"a pod of another scheduler's":  {there: []*v1.Pod{all("p", func(p *v1.Pod) { p.Spec.SchedulerName = "other" })}, asks: schedtest.Resources{"koordinator.sh/gpu": "100"}},
		"two pods with one device":      {there: []*v1.Pod{runningWith("p", "n1", "100", 0), runningWith("q", "n1", "100", 0)}, asks: schedtest.Resources{"koordinator.sh/gpu": "700"}, want: true},
		"a broken device with a user":   {change: breaks(7), there: []*v1.Pod{runningWith("p", "n1", "100", 7)}, asks: schedtest.Resources{"koordinator.sh/gpu": "700"}, want: true},
		"a broken device":               {change: breaks(7), asks: schedtest.Resources{"koordinator.sh/gpu": "800"}},
		"a device that went with a pod": {change: takesOut(7), there: []*v1.Pod{runningWith("p", "n1", "100", 7)}, asks: schedtest.Resources{"koordinator.sh/gpu": "700"}, want: true},
		"what Koordinator's manager publishes too": {change: publishes("1600"), there: []*v1.Pod{runningWith("p", "n1", "100", 0, 1, 2, 3)},
			asks: schedtest.Resources{"koordinator.sh/gpu": "400"}, want: true},
		"less than there is is published": {change: publishes("0"), asks: schedtest.Resources{"koordinator.sh/gpu": "800"}, want: true},
		"all memory by bytes":             {asks: schedtest.Resources{"koordinator.sh/gpu-memory": "640Gi", "koordinator.sh/gpu.shared": "8"}, want: true},
		"by bytes beside shares by ratio": {there: []*v1.Pod{runningWith("p", "n1", "50", 0, 1, 2, 3, 4, 5, 6, 7)}, asks: schedtest.Resources{"koordinator.sh/gpu-memory": "320Gi", "koordinator.sh/gpu.shared": "8"}, want: true},
		"NICs by count":                   {asks: schedtest.Resources{"koordinator.sh/rdma": "4"}, hint: `{"rdma":{"allocateStrategy":"RequestsAsCount","exclusivePolicy":"DeviceLevel"}}`, want: true},
		"one hundredth of each NIC":       {asks: schedtest.Resources{"koordinator.sh/rdma": "1"}, hint: `{"rdma":{"allocateStrategy":"ApplyForAll"}}`, want: true},
		"by a vendor's name":              {asks: schedtest.Resources{"nvidia.com/gpu": "8"}, change: vendors("8"), want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, devices := machines("n1")
			if tc.change != nil {
				tc.change(nodes[0], devices[0])
			}
			podGroup, pods := gang("g", 1, tc.asks)
			if tc.hint != "" {
				annotated(schedulingv1alpha1.DeviceAllocateHintAnnotation, tc.hint)(pods[0])
			}
			w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: append(pods, tc.there...)})
			if got := w.allocate(t); (len(got.decided) == 1) != tc.want {
				t.Errorf("placed %v, want it placed: %t; message %v", got.decided, tc.want, got.said)
			}
		})
	}
}

func breaks(gpu int32) func(*v1.Node, *schedulingv1alpha1.Device) {
	return func(_ *v1.Node, device *schedulingv1alpha1.Device) { device.Spec.Devices[gpu].Health = false }
}

func takesOut(gpu int32) func(*v1.Node, *schedulingv1alpha1.Device) {
	return func(_ *v1.Node, device *schedulingv1alpha1.Device) {
		device.Spec.Devices = append(device.Spec.Devices[:gpu:gpu], device.Spec.Devices[gpu+1:]...)
	}
}

func publishes(amount string) func(*v1.Node, *schedulingv1alpha1.Device) {
	return func(node *v1.Node, _ *schedulingv1alpha1.Device) {
		for _, name := range []v1.ResourceName{"koordinator.sh/gpu", "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio", "koordinator.sh/gpu-memory"} {
			node.Status.Allocatable[name] = resource.MustParse(amount)
		}
	}
}

func vendors(amount string) func(*v1.Node, *schedulingv1alpha1.Device) {
	return func(node *v1.Node, _ *schedulingv1alpha1.Device) {
		node.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse(amount)
	}
}
