// SPDX-License-Identifier: Apache-2.0

package deviceshare_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestDecidedDevicesReplaceThePodsAnnotation: a tenant who guesses the devices and writes them onto a pending pod could
// otherwise change them before it is bound.
func TestDecidedDevicesReplaceThePodsAnnotation(t *testing.T) {
	const key = schedulingv1alpha1.DeviceAllocatedAnnotation
	nodes, devices := machines("n1")
	podGroup, pods := gang("g", 1, schedtest.Resources{"koordinator.sh/gpu": "800"})
	spec := sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods}
	decided := newTestCluster(t, spec).allocate(t).handed[schedtest.Namespace+"/g-0"].Decided[key]
	if decided == "" {
		t.Fatal("the session decided no devices")
	}
	annotated(key, decided)(pods[0])
	if got := newTestCluster(t, spec).allocate(t).handed[schedtest.Namespace+"/g-0"].Decided[key]; got != decided {
		t.Errorf("the decided annotation is %q, want %q", got, decided)
	}
}

// TestOnANodeWithoutDevicesNothingIsLeftOfAForgedAnnotation checks that a forged annotation is replaced by an empty one
// if the pod is placed on a node without a Device object.
func TestOnANodeWithoutDevicesNothingIsLeftOfAForgedAnnotation(t *testing.T) {
	nodes, _ := machines("n1")
	nodes[0].Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("8")
	podGroup, pods := gang("g", 1, schedtest.Resources{"nvidia.com/gpu": "1"}, annotated(schedulingv1alpha1.DeviceAllocatedAnnotation, `{"gpu":[{"minor":0}]}`))
	got := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods}).allocate(t)
	if diff := cmp.Diff(map[string]string{schedulingv1alpha1.DeviceAllocatedAnnotation: "{}"}, got.handed[schedtest.Namespace+"/g-0"].Decided); diff != "" {
		t.Errorf("decided (-want +got):\n%s", diff)
	}
}

// TestPodsThatAskForDevicesAlone checks that pods which request only devices are placed as gangs, all or none, whatever
// the action.
func TestPodsThatAskForDevicesAlone(t *testing.T) {
	for name, tc := range map[string]struct{ members, want int }{"all find devices": {8, 8}, "one finds none": {9, 0}} {
		t.Run(name, func(t *testing.T) {
			nodes, devices := machines("n1")
			podGroup, pods := gang("g", tc.members, nil, func(pod *v1.Pod) {
				alone := v1.ResourceList{"koordinator.sh/gpu": resource.MustParse("100")}
				pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: alone, Requests: alone}
			})
			w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods})
			ssn := w.run("allocate", "backfill")
			defer ssn.Close()
			if got := ssn.Binds(); len(got) != tc.want {
				t.Errorf("placed %v, want %d", got, tc.want)
			}
		})
	}
}

// TestAMemberWithANUMAPolicyIsNotMoved checks that a placed member with a NUMA policy keeps its devices, even if a
// member without a NUMA policy needs them.
func TestAMemberWithANUMAPolicyIsNotMoved(t *testing.T) {
	nodes, devices := machines("n1")
	podGroup, pods := gang("g", 2, schedtest.Resources{"koordinator.sh/gpu": "200"})
	annotated(v1beta1.NumaPolicyKey, "single-numa-node")(pods[0])
	w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods})
	w.Cache().Nodes["n1"].NumaInfo = numaInfo(map[int]int{0: 0, 1: 8})
	w.Cache().Nodes["n1"].NumaChgFlag = api.NumaInfoMoreFlag
	if got := w.allocate(t).decided["g-0"]; got != "n1: gpu 4,5" && got != "n1: gpu 6,7" {
		t.Errorf("the member has %q, want two GPUs of the NUMA node with free CPUs", got)
	}

	// Two GPUs on one switch, which only 4 and 5 are.
	annotated(schedulingv1alpha1.DeviceAllocateHintAnnotation, `{"gpu":{"requiredTopologyScope":"PCIe"}}`)(pods[1])
	w.Load(sessiontest.ClusterSpec{Nodes: nodes, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: append(pods, runningWith("other", "n1", "100", 0, 2, 6))})
	w.Cache().Nodes["n1"].NumaInfo = numaInfo(map[int]int{0: 0, 1: 8})
	w.Cache().Nodes["n1"].NumaChgFlag = api.NumaInfoMoreFlag
	ssn := w.next(t)
	defer ssn.Close()
	tasks := tasksOf(ssn)
	place(t, ssn, tasks["g-0"])
	before := tasks["g-0"].Pod.Annotations[schedulingv1alpha1.DeviceAllocatedAnnotation]
	if got := devicesOf(t, before); got != "gpu 4,5" {
		t.Fatalf("the member has %s, want gpu 4,5", got)
	}
	if err := ssn.PrePredicateFn(tasks["g-1"]); err != nil {
		t.Fatal(err)
	}
	if err := ssn.PredicateFn(tasks["g-1"], ssn.Nodes["n1"]); err == nil || !strings.Contains(err.Error(), "Insufficient Topology Scoped GPU Devices") {
		t.Errorf("the result for a member that needs the same GPUs is %v", err)
	}
}

// TestTheVendorIsTheNodesLabelToo checks that the pre-bind step also reads the vendor of the GPUs from the node's
// label.
func TestTheVendorIsTheNodesLabelToo(t *testing.T) {
	nodes, devices := machines("n1")
	metav1.SetMetaDataLabel(&nodes[0].ObjectMeta, schedulingv1alpha1.GPUVendorLabel, "huawei")
	podGroup, pods := gang("g", 1, schedtest.Resources{"koordinator.sh/gpu": "100"})
	w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods})
	w.conf += "    arguments: {devicePluginAdaption: true}\n"
	bind := w.allocate(t).handed[schedtest.Namespace+"/g-0"]
	at := slices.IndexFunc(bind.Steps, func(step binding.Step) bool { return step.Plugin == "deviceshare" })
	if err := bind.Steps[at].PreBind(t.Context(), bind.Task, "n1"); err != nil {
		t.Fatal(err)
	}
	if got := bind.Task.Pod.Annotations["huawei.com/npu-core"]; got != "0" {
		t.Errorf("the annotation for the device plugin is %q, want 0", got)
	}
}
