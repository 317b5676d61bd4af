// SPDX-License-Identifier: Apache-2.0

package deviceshare_test

import (
	"fmt"
	"slices"
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

// TestDevicesOfPodsOnANode checks which devices of a node are in use: those in the annotations of its pods that request
// devices. Annotations of other pods do not count. The node is refused while its kubelet has given devices to a pod
// without a valid annotation.
func TestDevicesOfPodsOnANode(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5, 6, 7}
	forged := runningWith("forged", "n1", "100", all...)
	forged.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("1")}}
	leaving := runningWith("leaving", "n1", "100", all...)
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	ended := runningWith("ended", "n1", "100", all...)
	ended.Status.Phase = v1.PodSucceeded
	asks := func(name string, resources v1.ResourceList) *v1.Pod {
		pod := runningWith(name, "n1", "100")
		pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: resources, Requests: resources}
		delete(pod.Annotations, schedulingv1alpha1.DeviceAllocatedAnnotation)
		return pod
	}
	one := resource.MustParse("1")
	silent := asks("silent", v1.ResourceList{"nvidia.com/gpu": one})
	unreadable := silent.DeepCopy()
	annotated(schedulingv1alpha1.DeviceAllocatedAnnotation, "{")(unreadable)
	malformed := asks("malformed", v1.ResourceList{"huawei.com/npu-core": one, "koordinator.sh/gpu": one})
	silentLeaving := silent.DeepCopy()
	silentLeaving.DeletionTimestamp = leaving.DeletionTimestamp
	silentOnAll := silentLeaving.DeepCopy() // the pod uses all CPUs, so that no other pod fits now
	silentOnAll.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("96")
	whole := []string{"n1: gpu 0,1,2,3,4,5,6,7"}
	overflowing := runningWith("overflowing", "n1", "9007199254740991", slices.Repeat([]int{7}, 1500)...)
	tests := map[string]struct {
		running []*v1.Pod
		change  func(*v1.Pod)
		want    []string
		said    string
		waits   bool
	}{
		"no pod":                            {want: whole},
		"one that has others":               {running: []*v1.Pod{runningWith("other", "n1", "100", 7)}, said: "GPU"},
		"one that has one many times":       {running: []*v1.Pod{runningWith("other", "n1", "100", 7), overflowing}, said: "GPU"},
		"one on another node":               {running: []*v1.Pod{runningWith("other", "n2", "100", 7)}, want: whole},
		"one that asks for none":            {running: []*v1.Pod{forged}, want: whole},
		"one that has ended":                {running: []*v1.Pod{ended}, want: whole},
		"one that is being deleted":         {running: []*v1.Pod{leaving}, waits: true},
		"one whose annotation is no JSON":   {running: []*v1.Pod{unreadable}, said: "node(s) with a pod whose devices are unknown: its annotation scheduling.koordinator.sh/device-allocated is missing or invalid; delete that pod, or wait until it ends"},
		"one that does not say which":       {running: []*v1.Pod{silent}, said: "node(s) with a pod whose devices are unknown: its annotation scheduling.koordinator.sh/device-allocated is missing or invalid; delete that pod, or wait until it ends"},
		"one that asks for what cannot be":  {running: []*v1.Pod{malformed}, said: "node(s) with a pod whose devices are unknown: its annotation scheduling.koordinator.sh/device-allocated is missing or invalid; delete that pod, or wait until it ends"},
		"one without an allocation":         {running: []*v1.Pod{asks("costless", v1.ResourceList{"koordinator.sh/gpu": one})}, want: whole},
		"one that asks for less than one":   {running: []*v1.Pod{asks("zero", v1.ResourceList{"koordinator.sh/gpu.shared": resource.Quantity{}})}, want: whole},
		"such a one that is being deleted":  {running: []*v1.Pod{silentLeaving}, said: "node(s) with a pod whose devices are unknown: its annotation scheduling.koordinator.sh/device-allocated is missing or invalid; delete that pod, or wait until it ends"},
		"one that leaves its CPUs as well":  {running: []*v1.Pod{silentOnAll}, waits: true},
		"its own annotation from who knows": {change: annotated(schedulingv1alpha1.DeviceAllocatedAnnotation, `{"gpu":[{"minor":99}]}`), want: whole},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, devices := machines("n1")
			if tc.change == nil {
				tc.change = func(*v1.Pod) {}
			}
			podGroup, pods := gang("g", 1, schedtest.Resources{"koordinator.sh/gpu": "800"}, tc.change)
			w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: append(pods, tc.running...)})
			got := w.allocate(t)
			want := map[string]string{}
			if len(tc.want) > 0 {
				want["g-0"] = tc.want[0]
			}
			if diff := cmp.Diff(want, got.decided); diff != "" {
				t.Errorf("decided (-want +got):\n%s", diff)
			}
			if !strings.Contains(got.said["g-0"], tc.said) {
				t.Errorf("message %q, want %q", got.said["g-0"], tc.said)
			}
			if _, waits := got.waits["g-0"]; waits != tc.waits {
				t.Errorf("the pod waits for the node: %t, want %t", waits, tc.waits)
			}
		})
	}
}

// TestNoneOfAGangTakesWhatOnlyAnotherCanUse: the first member can use either of two GPUs, the second member only one of
// them. Both are placed, because the first takes the other GPU.
func TestNoneOfAGangTakesWhatOnlyAnotherCanUse(t *testing.T) {
	nodes, devices := machines("n1")
	for i := range devices[0].Spec.Devices {
		if d := &devices[0].Spec.Devices[i]; d.Type == "gpu" && (*d.Minor == 0 || *d.Minor == 4) {
			d.Labels = map[string]string{"either": "yes"}
			if *d.Minor == 4 {
				d.Labels["one"] = "yes"
			}
		}
	}
	wants := func(label string) func(*v1.Pod) {
		return annotated(schedulingv1alpha1.DeviceAllocateHintAnnotation, fmt.Sprintf(`{"gpu":{"selector":{"matchLabels":{%q:"yes"}}}}`, label))
	}
	podGroup, pods := gang("g", 2, schedtest.Resources{"koordinator.sh/gpu": "100"})
	wants("either")(pods[0])
	wants("one")(pods[1])
	w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: append(pods, runningWith("other", "n1", "100", 5))})
	want := map[string]string{"g-0": "n1: gpu 0", "g-1": "n1: gpu 4"}
	if diff := cmp.Diff(want, w.allocate(t).decided); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestDevicesOfVictims checks that the devices of victims are free for the preemptor. Preempt evicts victims in the session.
// Upstream's chooses victims by sums of resources, or by simulating their eviction.
func TestDevicesOfVictims(t *testing.T) {
	const tryingOut = "configurations:\n- name: preempt\n  arguments:\n    enableTopologyAwarePreemption: true\n"
	const upstreams = "preempt-upstream"
	tests := map[string]struct{ action, resource, each, all, conf string }{
		"a vendor's":             {action: "preempt", resource: "nvidia.com/gpu", each: "4", all: "8"},
		"Koordinator's":          {action: "preempt", resource: "koordinator.sh/gpu", each: "400", all: "800"},
		"upstream's, by sums":    {action: upstreams, resource: "nvidia.com/gpu", each: "4", all: "8"},
		"upstream's, aware":      {action: upstreams, resource: "nvidia.com/gpu", each: "4", all: "8", conf: tryingOut},
		"upstream's, trying out": {action: upstreams, resource: "koordinator.sh/gpu", each: "400", all: "800", conf: tryingOut},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, devices := machines("n1")
			nodes[0].Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("8")
			nodes[0].Status.Capacity = nodes[0].Status.Allocatable
			var running []*v1.Pod
			var podGroups []*v1beta1.PodGroup
			for i, minors := range [][]int{{0, 1, 2, 3}, {4, 5, 6, 7}} {
				name := fmt.Sprintf("low-%d", i)
				pod := runningWith(name, "n1", "100", minors...)
				limits := v1.ResourceList{"cpu": resource.MustParse("1"), v1.ResourceName(tc.resource): resource.MustParse(tc.each)}
				pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: limits, Requests: limits}
				metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1beta1.KubeGroupNameAnnotationKey, name)
				metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "volcano.sh/preemptable", "true")
				running = append(running, pod)
				podGroups = append(podGroups, schedtest.MakePodGroup().Name(name).MinMember(0).Phase(v1beta1.PodGroupRunning).Obj())
			}
			high, pods := gang("high", 1, schedtest.Resources{tc.resource: tc.all}, func(pod *v1.Pod) { pod.Spec.Priority = new(int32(1000)) })
			high.Spec.PriorityClassName = "high"
			w := newTestCluster(t, sessiontest.ClusterSpec{
				Nodes: nodes, Devices: devices, PodGroups: append(podGroups, high), Pods: append(running, pods...),
				PriorityClasses: []*schedulingv1.PriorityClass{schedtest.PriorityClass("high", 1000)},
			})
			w.conf = strings.Replace(byDevices, "actions: allocate", `actions: "allocate, `+tc.action+`"`, 1) + tc.conf
			ssn := w.Open(w.registry, w.conf)
			defer ssn.Close()
			first, _ := vcframework.GetAction("allocate")
			second, _ := vcframework.GetAction(tc.action)
			ssn.Run(first, second)
			if diff := cmp.Diff(map[string]string{schedtest.Namespace + "/high-0": "n1"}, ssn.Pipelined()); diff != "" {
				t.Errorf("pods that wait for victims to terminate (-want +got):\n%s", diff)
			}
			if got := len(ssn.Evicts()); got != 2 {
				t.Errorf("evicted %v, want both pods", ssn.Evicts())
			}
		})
	}
}
