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

// stepOf returns the plugin's pre-bind step of member g-0.
func stepOf(t *testing.T, out outcome) (binding.Step, sessiontest.Bind) {
	t.Helper()
	bind := out.handed[schedtest.Namespace+"/g-0"]
	at := slices.IndexFunc(bind.Steps, func(step binding.Step) bool { return step.Plugin == "deviceshare" })
	if at < 0 {
		t.Fatalf("the member is not bound, or has no step of the plugin; message %v", out.said)
	}
	return bind.Steps[at], bind
}

// TestDevicePluginAnnotationsWhereEnabled checks the annotations for the device plugin. If the vendor's device plugin
// serves one pod at a time, the step locks the node, and the rollback unlocks it.
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
			w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods,
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
				t.Errorf("the annotation for the device plugin lists GPUs %q, want %q", got, tc.minors)
			}
			if got := isLocked(); got != tc.locks {
				t.Errorf("the node is locked: %t, want %t", got, tc.locks)
			}
			w.Kube().ClearActions()
			if err := step.Rollback(t.Context(), bind.Task, "n1"); err != nil {
				t.Fatal(err)
			}
			if got := w.Kube().Actions(); len(got) > 0 && tc.arguments == "" {
				t.Errorf("the rollback sent API calls %v, want none", got)
			}
			if isLocked() {
				t.Error("the node is still locked after the rollback")
			}
		})
	}
}

// TestADeviceObjectThatCameAfterThePodWasPlacedByNumbers checks that the step fails, because the pod has no device of
// the new Device object.
func TestADeviceObjectThatCameAfterThePodWasPlacedByNumbers(t *testing.T) {
	nodes, devices := machines("n1")
	nodes[0].Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("8")
	podGroup, pods := gang("g", 1, schedtest.Resources{"nvidia.com/gpu": "1"})
	w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: []*schedulingv1alpha1.Device{board("n2")}, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods})
	step, bind := stepOf(t, w.allocate(t))
	if err := step.PreBind(t.Context(), bind.Task, "n1"); err != nil {
		t.Fatalf("the step of a pod placed by numbers failed: %v", err)
	}
	w.Devices().Put(devices[0])
	var err error
	_ = wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err = step.PreBind(ctx, bind.Task, "n1")
		return err != nil, nil
	})
	if err == nil || err.Error() != "node n1 got a Device object after the pod was placed there by the number of its GPUs" {
		t.Errorf("the step returned %v", err)
	}
}
