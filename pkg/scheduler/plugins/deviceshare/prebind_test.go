// SPDX-License-Identifier: Apache-2.0

package deviceshare_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// stepOf is the plugin's step of the member g-0.
func stepOf(t *testing.T, out outcome) (binding.Step, sessiontest.Bind) {
	t.Helper()
	bind := out.handed[schedtest.Namespace+"/g-0"]
	at := slices.IndexFunc(bind.Steps, func(step binding.Step) bool { return step.Plugin == "deviceshare" })
	if at < 0 {
		t.Fatalf("the member is not bound, or has no step of the plugin; said %v", out.said)
	}
	return bind.Steps[at], bind
}

// TestDevicePluginAnnotationsWhereEnabled, and the node is locked for a pod with devices of a vendor whose pods take turns, until it is given back.
func TestDevicePluginAnnotationsWhereEnabled(t *testing.T) {
	const lock = "hami.io/mutex.lock"
	tests := map[string]struct {
		arguments string
		asks      schedtest.Resources
		minors    string
		locks     bool
	}{
		"wanted":            {arguments: "    arguments: {devicePluginAdaption: true}\n", asks: schedtest.Resources{"koordinator.sh/gpu": "200"}, minors: "0,1", locks: true},
		"wanted, no GPUs":   {arguments: "    arguments: {devicePluginAdaption: true}\n", asks: schedtest.Resources{"koordinator.sh/rdma": "100"}},
		"adaption disabled": {asks: schedtest.Resources{"koordinator.sh/gpu": "200"}},
		"wanted, a CPU pod": {arguments: "    arguments: {devicePluginAdaption: true}\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, devices := machines("n1")
			devices[0].Labels = map[string]string{schedulingv1alpha1.GPUVendorLabel: "metax"}
			podGroup, pods := gang("g", 1, tc.asks)
			w := newWorld(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods,
				Objects: []runtime.Object{nodes[0].DeepCopy(), pods[0].DeepCopy()}})
			w.conf += tc.arguments
			step, bind := stepOf(t, w.allocate(t))
			isLocked := func() bool {
				node, err := w.Kube().CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return node.Annotations[lock] != ""
			}
			if err := step.PreBind(t.Context(), bind.Task, "n1"); err != nil {
				t.Fatal(err)
			}
			if got := bind.Task.Pod.Annotations["scheduling.koordinator.sh/gpu-minors"]; got != tc.minors {
				t.Errorf("the device plugin is told of GPUs %q, want %q", got, tc.minors)
			}
			if got := isLocked(); got != tc.locks {
				t.Errorf("the node is locked: %t, want %t", got, tc.locks)
			}
			w.Kube().ClearActions()
			if err := step.Rollback(t.Context(), bind.Task, "n1"); err != nil {
				t.Fatal(err)
			}
			if got := w.Kube().Actions(); len(got) > 0 && tc.arguments == "" {
				t.Errorf("given back, the API server is asked %v", got)
			}
			if isLocked() {
				t.Error("given back, the node is locked")
			}
		})
	}
}

// TestADeviceObjectThatCameAfterThePodWasPlacedByNumbers: it has no device of those.
func TestADeviceObjectThatCameAfterThePodWasPlacedByNumbers(t *testing.T) {
	nodes, devices := machines("n1")
	nodes[0].Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("8")
	podGroup, pods := gang("g", 1, schedtest.Resources{"nvidia.com/gpu": "1"})
	w := newWorld(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: []*schedulingv1alpha1.Device{board("n2")}, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods})
	step, bind := stepOf(t, w.allocate(t))
	if err := step.PreBind(t.Context(), bind.Task, "n1"); err != nil {
		t.Fatalf("by numbers: %v", err)
	}
	w.Devices().Put(devices[0])
	var err error
	_ = wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
		err = step.PreBind(ctx, bind.Task, "n1")
		return err != nil, nil
	})
	if err == nil || err.Error() != "node n1 got a Device object after the pod was placed there by the number of its GPUs" {
		t.Errorf("the step said %v", err)
	}
}
