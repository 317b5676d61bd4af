// SPDX-License-Identifier: Apache-2.0

package deviceshare_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// onNode returns a pod that sets nodeName itself and requests these resources.
func onNode(node string, asks schedtest.Resources, change ...func(*v1.Pod)) *v1.Pod {
	_, pods := gang("x", 1, asks, append([]func(*v1.Pod){func(pod *v1.Pod) { pod.Spec.NodeName = node }}, change...)...)
	return pods[0]
}

// lists makes the pod's annotation list the first GPUs, as whole ones.
func lists(gpus int) func(*v1.Pod) {
	var minors []int
	for minor := range gpus {
		minors = append(minors, minor)
	}
	return annotated(schedulingv1alpha1.DeviceAllocatedAnnotation, allocated(runningWith("x", "", "100", minors...)))
}

func allocated(pod *v1.Pod) string {
	return pod.Annotations[schedulingv1alpha1.DeviceAllocatedAnnotation]
}

func startedByKubelet(pod *v1.Pod) { pod.Status.StartTime = &schedtest.Created }

func succeeded(pod *v1.Pod) { pod.Status.Phase = v1.PodSucceeded }

// older makes the pod an hour older than others.
func older(pod *v1.Pod) {
	pod.CreationTimestamp = metav1.NewTime(schedtest.Created.Add(-time.Hour))
}

// inOther puts the pod into a queue of its own, which also has a limit of devices.
func inOther(pod *v1.Pod) { annotated("test/queue", "other")(pod) }

// TestPodsCountAtMostTheDevicesOfTheirNode: a tenant may write any node, any request and any allocation into a pod.
// Such pods must leave the rest of the queue's limit of ten GPUs to other pods. Node n3 exists, but this scheduler's
// sessions do not include it. Node numbers has four GPUs and no Device object. Node bare has neither, like a node whose
// Device object was deleted before the scheduler started. The Device object of node empty lists no devices.
func TestPodsCountAtMostTheDevicesOfTheirNode(t *testing.T) {
	gpus := func(percent int) schedtest.Resources {
		return schedtest.Resources{"koordinator.sh/gpu": strconv.Itoa(percent)}
	}
	cores := schedtest.Resources{"koordinator.sh/gpu-core": "300", "koordinator.sh/gpu-memory-ratio": "300"}
	tests := map[string]struct {
		pods []*v1.Pod
		want int // placed pods, with a limit of ten
	}{
		"no pod":                              {want: 10},
		"on no node":                          {[]*v1.Pod{onNode("ghost", gpus(100000))}, 10},
		"on no node, with an allocation":      {[]*v1.Pod{onNode("ghost", gpus(800), lists(8))}, 10},
		"on no node, by bytes":                {[]*v1.Pod{onNode("ghost", schedtest.Resources{"koordinator.sh/gpu-memory": "8000Gi"})}, 10},
		"more than the node has":              {[]*v1.Pod{onNode("n2", gpus(100000))}, 2},
		"more bytes than the node has":        {[]*v1.Pod{onNode("n2", schedtest.Resources{"koordinator.sh/gpu-memory": "8000Gi"})}, 2},
		"the whole node, three times":         {[]*v1.Pod{onNode("n2", gpus(800)), onNode("n2", gpus(800)), onNode("n2", gpus(800))}, 2},
		"a part of a node, three times":       {[]*v1.Pod{onNode("n2", gpus(200)), onNode("n2", gpus(200)), onNode("n2", gpus(200))}, 4},
		"an allocation beyond the node":       {[]*v1.Pod{onNode("n2", gpus(100000), lists(64))}, 2},
		"an allocation of the node, twice":    {[]*v1.Pod{onNode("n2", gpus(800), lists(8)), onNode("n2", gpus(800), lists(8))}, 2},
		"started":                             {[]*v1.Pod{onNode("n2", gpus(100000), startedByKubelet)}, 2},
		"ended":                               {[]*v1.Pod{onNode("n2", gpus(100000), succeeded)}, 10},
		"ended, beside one that has not":      {[]*v1.Pod{onNode("n2", gpus(800), succeeded, older), onNode("n2", gpus(300))}, 7},
		"a node outside the session":          {[]*v1.Pod{onNode("n3", gpus(300), lists(3))}, 7},
		"more than a node outside has":        {[]*v1.Pod{onNode("n3", gpus(100000))}, 2},
		"a node without a Device object":      {[]*v1.Pod{onNode("numbers", schedtest.Resources{"nvidia.com/gpu": "3"})}, 7},
		"more than its kubelet lists":         {[]*v1.Pod{onNode("numbers", schedtest.Resources{"nvidia.com/gpu": "1000"})}, 6},
		"more bytes than its GPUs could have": {[]*v1.Pod{onNode("numbers", schedtest.Resources{"koordinator.sh/gpu-memory": "8000Gi"})}, 6},
		"a node without GPUs":                 {[]*v1.Pod{onNode("bare", gpus(100000))}, 10},
		"unknown devices, an allocation":      {[]*v1.Pod{onNode("bare", gpus(300), lists(3))}, 7},
		"unknown devices, beyond any node":    {[]*v1.Pod{onNode("bare", gpus(100000), lists(64))}, 2},
		"unknown devices, two allocations":    {[]*v1.Pod{onNode("bare", gpus(600), lists(6)), onNode("bare", gpus(600), lists(6))}, 2},
		"an empty Device object":              {[]*v1.Pod{onNode("empty", gpus(300), lists(3))}, 10},
		"unknown devices, and none beside":    {[]*v1.Pod{onNode("bare", gpus(800), older, startedByKubelet), onNode("bare", gpus(300), lists(3))}, 7},
		"unknown devices, another queue":      {[]*v1.Pod{onNode("bare", gpus(800), lists(8), inOther)}, 10},
		"devices, before older pods without":  {[]*v1.Pod{onNode("n2", gpus(800), older, startedByKubelet, inOther), onNode("n2", gpus(300), lists(3))}, 7},
		"started, before older pods":          {[]*v1.Pod{onNode("n2", gpus(800), older, inOther), onNode("n2", gpus(300), startedByKubelet)}, 7},
		"an invalid hint on a running pod": {
			[]*v1.Pod{onNode("n2", cores, lists(3), startedByKubelet, annotated(schedulingv1alpha1.DeviceAllocateHintAnnotation, `{"x":{}}`))}, 7,
		},
		"an invalid joint allocation on a running pod": {
			[]*v1.Pod{onNode("n2", cores, lists(3), startedByKubelet, annotated(schedulingv1alpha1.DeviceJointAllocateAnnotation, `{`))}, 7,
		},
		"beside an older pod of another queue":        {[]*v1.Pod{onNode("n2", gpus(600), older, inOther), onNode("n2", gpus(800))}, 2},
		"beside a forged allocation of another queue": {[]*v1.Pod{onNode("n2", gpus(800), lists(8)), onNode("n2", gpus(800), lists(8), older, inOther)}, 2},
		"numbered, beside a forged allocation of another queue": {
			[]*v1.Pod{onNode("numbers", schedtest.Resources{"nvidia.com/gpu": "4"}, startedByKubelet), onNode("numbers", gpus(400), lists(4), older, inOther)}, 6,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := leftOf(t, tc.pods).decided; len(got) != tc.want {
				t.Errorf("placed %v, want %d", got, tc.want)
			}
		})
	}
}

// leftOf places pods of one GPU each in a queue with a limit of ten GPUs, which also has the given pods.
func leftOf(t *testing.T, given []*v1.Pod) outcome {
	t.Helper()
	nodes, devices := machines("n0", "n1", "n2", "empty", "numbers", "bare")
	_, outside := machines("n3")
	devices = append(devices[:4], outside...)
	devices[3].Spec.Devices = nil
	for _, list := range []v1.ResourceList{nodes[4].Status.Capacity, nodes[4].Status.Allocatable} {
		list["nvidia.com/gpu"] = resource.MustParse("4")
	}
	limit := schedtest.Resources{"koordinator.sh/gpu": "1000", "koordinator.sh/gpu-memory": "800Gi"}
	other := bounded(limit)
	other.Name = "other"
	podGroup, pods := gang("g", 12, schedtest.Resources{"koordinator.sh/gpu": "100"})
	podGroup.Spec.Queue, podGroup.Spec.MinMember = "bounded", 1
	podGroups := []*v1beta1.PodGroup{podGroup}
	for i, pod := range given {
		pod, name := pod.DeepCopy(), fmt.Sprint("given-", i)
		pod.Name, pod.UID = name, types.UID(name)
		annotated(v1beta1.KubeGroupNameAnnotationKey, name)(pod)
		queue := "bounded"
		if pod.Annotations["test/queue"] != "" {
			queue = "other"
		}
		podGroups = append(podGroups, schedtest.MakePodGroup().Name(name).MinMember(1).Queue(queue).Obj())
		pods = append(pods, pod)
	}
	w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, Queues: []*v1beta1.Queue{bounded(limit), other}, PodGroups: podGroups, Pods: pods})
	n3, _ := machines("n3")
	if err := w.Cache().SharedInformerFactory().Core().V1().Nodes().Informer().GetStore().Add(n3[0]); err != nil {
		t.Fatal(err)
	}
	w.conf += "  - name: capacity\n"
	return w.allocate(t)
}
