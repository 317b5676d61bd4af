// SPDX-License-Identifier: Apache-2.0

package deviceshare_test

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestAPodThatCameBeforeTheBind fails the member if it has the device that was chosen: another scheduler bound it there meanwhile.
func TestAPodThatCameBeforeTheBind(t *testing.T) {
	ended := has("other", "n1", "100", 0)
	ended.Status.Phase = v1.PodSucceeded
	silent := has("other", "n1", "100")
	delete(silent.Annotations, schedulingv1alpha1.DeviceAllocatedAnnotation)
	silent.Spec.Containers[0].Resources.Limits = v1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	alone := has("other", "n1", "100", 1)
	annotated(schedulingv1alpha1.DeviceAllocatedAnnotation, `{"gpu":[{"minor":1,"extension":{"exclusivePolicy":"PCIeLevel"}}]}`)(alone)
	itself := has("g-0", "n1", "100", 0)
	itself.UID = types.UID(schedtest.Namespace + "-g-0")
	tests := map[string]struct {
		other *v1.Pod
		want  string
	}{
		"with the device":                    {other: has("other", "n1", "100", 0), want: "gpu 0 (n1-gpu-0) is over-booked: koordinator.sh/gpu-core 150 of 100 is in use"},
		"with a part of it that is left":     {other: has("other", "n1", "50", 0)},
		"with another device":                {other: has("other", "n1", "100", 1)},
		"with the device of another node":    {other: has("other", "n2", "100", 0)},
		"that has ended":                     {other: ended},
		"that does not say what it has":      {other: silent, want: "nothing says which"},
		"that has the PCIe switch to itself": {other: alone, want: "used or kept by others"},
		"which is the member":                {other: itself},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, devices := machines("n1", "n2")
			podGroup, pods := gang("g", 1, schedtest.Resources{"koordinator.sh/gpu": "50"}, func(pod *v1.Pod) {
				pod.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": "n1"}
			})
			nodes[0].Labels = map[string]string{"kubernetes.io/hostname": "n1"}
			w := newWorld(t, sessiontest.World{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods})
			bind := w.allocate(t).handed[schedtest.Namespace+"/g-0"]
			if got := devicesOf(t, bind.Decided[schedulingv1alpha1.DeviceAllocatedAnnotation]); got != "gpu 0" {
				t.Fatalf("the member is to have %s, want gpu 0", got)
			}
			if tc.other.Name == "g-0" && bind.Task.Pod.UID != itself.UID {
				t.Fatalf("the member is %s", bind.Task.Pod.UID)
			}
			step := bind.Steps[slices.IndexFunc(bind.Steps, func(step binding.Step) bool { return step.Plugin == "deviceshare" })]
			w.AddPod(tc.other)
			switch err := step.PreBind(t.Context(), bind.Task, "n1"); {
			case tc.want == "" && err != nil:
				t.Errorf("the step failed: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("the step said %v, want %q", err, tc.want)
			}
		})
	}
}
