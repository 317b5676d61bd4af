// SPDX-License-Identifier: Apache-2.0

package deviceshare_test

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/wait"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestADeletedDeviceObjectLeavesNoNumbers checks that no pod is placed by the number of GPUs after the node's Device
// object was deleted. Such pods would block the devices for all other pods once the Device object exists again.
func TestADeletedDeviceObjectLeavesNoNumbers(t *testing.T) {
	const deleted = "node(s) whose Device object was deleted; they take no pods that request only a number of GPUs until it exists again"
	nodes, devices := machines("n1", "n2")
	for _, node := range numbered(nodes) {
		node.Labels = map[string]string{"kubernetes.io/hostname": node.Name}
	}
	podGroup, pods := gang("g", 1, schedtest.Resources{"nvidia.com/gpu": "1"}, func(pod *v1.Pod) {
		pod.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": "n1"}
	})
	w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods})
	step, bind := stepOf(t, w.allocate(t))
	// As if the pod had been placed by numbers.
	delete(bind.Task.Pod.Annotations, schedulingv1alpha1.DeviceAllocatedAnnotation)
	w.Load(sessiontest.ClusterSpec{Nodes: nodes, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods})
	w.Devices().Remove("n1")
	var err error
	_ = wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err = step.PreBind(ctx, bind.Task, "n1")
		return err == nil || strings.Contains(err.Error(), deleted), nil
	})
	if err == nil || !strings.Contains(err.Error(), deleted) {
		t.Errorf("the step returned %v, want %q", err, deleted)
	}
	if got := w.allocate(t); len(got.decided) > 0 || !strings.Contains(got.said["g-0"], deleted) {
		t.Errorf("placed %v, message %q", got.decided, got.said["g-0"])
	}
	w.Devices().Put(devices[0])
	if err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return w.allocate(t).decided["g-0"] == "n1: gpu 0", nil
	}); err != nil {
		t.Error("after the Device object was created again, the pod is not placed")
	}
}

// TestAPodThatNoKubeletCouldServe: a pod that sets nodeName itself does not run yet, and its node has no resource of
// the requested name. The pod uses no devices, because the kubelet will reject it.
func TestAPodThatNoKubeletCouldServe(t *testing.T) {
	asks := func(phase v1.PodPhase) *v1.Pod {
		pod := runningWith("forced", "n1", "100")
		delete(pod.Annotations, schedulingv1alpha1.DeviceAllocatedAnnotation)
		pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
		pod.Status.Phase = phase
		return pod
	}
	had := func(nodes []*v1.Node) []*v1.Node {
		nodes[0].Status.Capacity["nvidia.com/gpu"] = resource.MustParse("8")
		return nodes
	}
	same := func(nodes []*v1.Node) []*v1.Node { return nodes }
	tests := map[string]struct {
		phase v1.PodPhase
		node  func([]*v1.Node) []*v1.Node
		want  int
	}{
		"a node without":                      {v1.PodPending, same, 1},
		"a node with":                         {v1.PodPending, numbered, 0},
		"a node that has none now":            {v1.PodPending, had, 0},
		"a node without where it runs anyhow": {v1.PodRunning, same, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, devices := machines("n1")
			podGroup, pods := gang("g", 1, schedtest.Resources{"koordinator.sh/gpu": "100"})
			w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: tc.node(nodes), Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: append(pods, asks(tc.phase))})
			out := w.allocate(t)
			if len(out.decided) != tc.want {
				t.Fatalf("placed %v, want %d; message %q", out.decided, tc.want, out.said["g-0"])
			}
			if tc.want == 0 {
				return
			}
			step, bind := stepOf(t, out)
			w.AddPod(asks(tc.phase))
			if err := step.PreBind(t.Context(), bind.Task, "n1"); err != nil {
				t.Errorf("the step failed: %v", err)
			}
		})
	}
}
