// SPDX-License-Identifier: Apache-2.0

package deviceshare_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/config"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestNodeRefusesRequestsThatItsVendorCannotServe checks that a node is refused if the device plugin of its vendor
// cannot serve the request. Otherwise the pod would fail right before each bind, on one node after another.
func TestNodeRefusesRequestsThatItsVendorCannotServe(t *testing.T) {
	// says returns the expected message of the PodGroup, followed by that of its pod. Both say why the only node is
	// refused.
	says := func(short, whole string) string {
		return "0/1 members fit: 1 node " + short + "0/1 nodes are unavailable: 1 node(s) " + whole + "."
	}
	const cambricon, metax = "with devices of cambricon, whose device plugin requires koordinator.sh/gpu-core and ", "with devices of metax, whose device plugin requires koordinator.sh/gpu-core and "
	needs := says(cambricon+"a... (and 51 bytes more)", cambricon+"at least 256Mi of koordinator.sh/gpu-memory for each")
	one := "with devices of cambricon, whose device plugin allocates at most 1 to a pod: 2 requested"
	duo := "with devices of model Ascend-310P3-300I-DUO, which cannot be divided by templates"
	none := `no matched GPU shared resource template: of vendor "huawei" and model "Ascend-310P3"`
	template := schedtest.Resources{"koordinator.sh/gpu.shared": "1", "huawei.com/npu-core": "1", "huawei.com/npu-cpu": "1", "koordinator.sh/gpu-memory": "3Gi"}
	tests := map[string]struct {
		vendor string
		asks   schedtest.Resources
		said   string
		model  string
	}{
		"Cambricon, one":                    {"cambricon", schedtest.Resources{"koordinator.sh/gpu": "50"}, "", ""},
		"Cambricon, two":                    {"cambricon", schedtest.Resources{"koordinator.sh/gpu": "200"}, says(one, one), ""},
		"Cambricon, memory alone":           {"cambricon", schedtest.Resources{"koordinator.sh/gpu-memory-ratio": "50"}, needs, ""},
		"Cambricon, too little memory":      {"cambricon", schedtest.Resources{"koordinator.sh/gpu-core": "10", "koordinator.sh/gpu-memory": "255Mi"}, needs, ""},
		"Cambricon, just enough memory":     {"cambricon", schedtest.Resources{"koordinator.sh/gpu-core": "10", "koordinator.sh/gpu-memory": "256Mi"}, "", ""},
		"MetaX, several":                    {"metax", schedtest.Resources{"koordinator.sh/gpu": "200"}, "", ""},
		"MetaX, memory alone":               {"metax", schedtest.Resources{"koordinator.sh/gpu-memory": "1Gi"}, says(metax+"at le... (and 45 bytes more)", metax+"at least 1Mi of koordinator.sh/gpu-memory for each"), ""},
		"NICs alone":                        {"cambricon", schedtest.Resources{"koordinator.sh/rdma": "200"}, "", ""},
		"Huawei, a template of the duo":     {"huawei", template, says(duo, duo), "Ascend-310P3-300I-DUO"},
		"Huawei, a template of another":     {"huawei", template, strings.ReplaceAll(says(none, none), "node(s) no ", "no "), "Ascend-310P3"},
		"Huawei, two of the duo":            {"huawei", schedtest.Resources{"huawei.com/npu-core": "40", "koordinator.sh/gpu-memory-ratio": "200"}, "", "Ascend-310P3-300I-DUO"},
		"another vendor, memory alone, two": {"huawei", schedtest.Resources{"koordinator.sh/gpu-memory-ratio": "200"}, "", ""},
	}
	for name, tc := range tests {
		for _, adapted := range []bool{true, false} {
			nodes, devices := npuMachines("n1")
			devices[0].Labels = map[string]string{schedulingv1alpha1.GPUVendorLabel: tc.vendor, schedulingv1alpha1.GPUModelLabel: tc.model}
			podGroup, pods := gang("g", 1, tc.asks)
			w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods})
			if adapted {
				w.conf += "    arguments: {devicePluginAdaption: true}\n"
			}
			out := w.allocate(t)
			// A pod that needs a template is refused in any case, because no templates exist.
			_, templated := tc.asks["koordinator.sh/gpu.shared"]
			if placed := len(out.decided) == 1; placed != (tc.said == "" || !adapted && !templated) {
				t.Errorf("%s, adapted %t: placed %t, message %q", name, adapted, placed, out.said["g-0"])
			}
			if adapted && out.said["g-0"] != tc.said {
				t.Errorf("%s: message %q, want %q", name, out.said["g-0"], tc.said)
			}
		}
	}
}

// TestPodsWithDevicesLeaveNoNumbers: a pod on a node has devices by its annotation, but the scheduler finds no Device
// object of the node, for example without permission. No pods are then placed by the number of GPUs that the node
// reports.
func TestPodsWithDevicesLeaveNoNumbers(t *testing.T) {
	const missing = "node(s) with pods that use devices of a Device object that does not exist"
	forged := runningWith("forged", "n1", "100", 0)
	forged.Spec.Containers[0].Resources = v1.ResourceRequirements{}
	none := runningWith("none", "n1", "100")
	annotated(schedulingv1alpha1.DeviceAllocatedAnnotation, "{}")(none)
	ended := runningWith("ended", "n1", "100", 0)
	ended.Status.Phase = v1.PodSucceeded
	tests := map[string]struct {
		running *v1.Pod
		said    string
	}{
		"a pod with a device":             {running: runningWith("other", "n1", "100", 0), said: "0/1 members fit: 1 node " + strings.TrimPrefix(missing, "node(s) ") + "0/1 nodes are unavailable: 1 " + missing + "."},
		"a pod without":                   {running: none},
		"a pod that has ended":            {running: ended},
		"a pod that asks for none":        {running: forged},
		"a pod with a device of another":  {running: runningWith("other", "n2", "100", 0)},
		"a pod with a device, by numbers": {running: runningWith("other", "n1", "100")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, _ := machines("n1")
			podGroup, pods := gang("g", 1, schedtest.Resources{"nvidia.com/gpu": "1"})
			w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: numbered(nodes), PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: append(pods, tc.running)})
			out := w.allocate(t)
			if placed := len(out.decided) == 1; placed != (tc.said == "") || out.said["g-0"] != tc.said {
				t.Fatalf("placed %v, message %q, want %q", out.decided, out.said["g-0"], tc.said)
			}
			if tc.said != "" {
				return
			}
			step, bind := stepOf(t, out)
			if err := step.PreBind(t.Context(), bind.Task, "n1"); err != nil {
				t.Errorf("the step failed: %v", err)
			}
			w.AddPod(runningWith("late", "n1", "100", 0))
			if err := step.PreBind(t.Context(), bind.Task, "n1"); err == nil || err.Error() != "node n1: "+missing {
				t.Errorf("beside a new pod with devices, the step returned %v", err)
			}
		})
	}
}

// TestADeviceThatBreaksBeforeTheBind checks that the pre-bind step fails with the reason if a device of the member has
// changed.
func TestADeviceThatBreaksBeforeTheBind(t *testing.T) {
	const changed = "devices of node n1 changed after the pod was placed there: "
	tests := map[string]struct {
		change func(*testCluster, *schedulingv1alpha1.Device)
		want   string
	}{
		"unhealthy": {func(w *testCluster, d *schedulingv1alpha1.Device) {
			d.Spec.Devices[0].Health = false
			w.Devices().Put(d)
		}, changed + "device gpu 0 (n1-gpu-0) is unhealthy"},
		"another one": {func(w *testCluster, d *schedulingv1alpha1.Device) {
			d.Spec.Devices[0].UUID = "new"
			w.Devices().Put(d)
		}, changed + "device gpu 0 was replaced by another device (new, was n1-gpu-0)"},
		"taken out": {func(w *testCluster, d *schedulingv1alpha1.Device) {
			d.Spec.Devices = d.Spec.Devices[1:]
			w.Devices().Put(d)
		}, changed + "device gpu 0 is no longer in the Device object"},
		"its NIC on another switch": {func(w *testCluster, d *schedulingv1alpha1.Device) {
			d.Spec.Devices[8].Topology.PCIEID = "3"
			w.Devices().Put(d)
		}, changed + "the pod's devices do not satisfy its request: Device Joint-Allocate rules violation: 1 GPU free, none with an RDMA NIC on the same PCIe switch"},
		"the whole object": {func(w *testCluster, d *schedulingv1alpha1.Device) { w.Devices().Remove(d.Name) }, "the Device object of node n1, which lists the pod's devices, was deleted"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, devices := machines("n1")
			podGroup, pods := gang("g", 1, schedtest.Resources{"koordinator.sh/gpu": "100", "koordinator.sh/rdma": "100"}, jointly)
			w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods})
			bind := w.allocate(t).handed[schedtest.Namespace+"/g-0"]
			at := slices.IndexFunc(bind.Steps, func(step binding.Step) bool { return step.Plugin == "deviceshare" })
			if at < 0 {
				t.Fatal("the member has no step of the plugin")
			}
			step := bind.Steps[at]
			if err := step.PreBind(t.Context(), bind.Task, "n1"); err != nil {
				t.Fatalf("before the change: %v", err)
			}
			tc.change(w, devices[0])
			var err error
			_ = wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
				err = step.PreBind(ctx, bind.Task, "n1")
				return err != nil, nil
			})
			if err == nil || err.Error() != tc.want {
				t.Errorf("the step returned %v, want %q", err, tc.want)
			}
			if err := step.Rollback(t.Context(), bind.Task, "n1"); err != nil {
				t.Errorf("the rollback failed: %v", err)
			}
		})
	}
}

// TestWhyAGangWaitsForDevices checks that the message names the missing devices, and a pod with an invalid request.
func TestWhyAGangWaitsForDevices(t *testing.T) {
	const (
		malformed = "resource koordinator.sh/gpu: is 150, must be at most 100 or a multiple of 100"
		few       = "gpu devices: 16 requested, 8 of 8 GPUs free"
		missing   = "0/1 members fit: 1 node without a Device object; a member requests more than any node has: " +
			"koordinator.sh/gpu-core 100 of at most 0, koordinator.sh/gpu-memory-ratio 100 of at most 0" + "0/1 nodes are unavailable: 1 node(s) without a Device object."
	)
	tests := map[string]struct {
		resources schedtest.Resources
		change    []func(*v1.Pod)
		devices   func([]*schedulingv1alpha1.Device) []*schedulingv1alpha1.Device
		want      string
	}{
		"an amount that cannot be": {
			resources: schedtest.Resources{"koordinator.sh/gpu": "150"}, want: "pod ns/g-0: " + malformed + "0/1 nodes are unavailable: 1 pod ns/g-0: " + malformed + ".",
		},
		"no Device object": {
			resources: schedtest.Resources{"koordinator.sh/gpu": "100"},
			devices:   func([]*schedulingv1alpha1.Device) []*schedulingv1alpha1.Device { return []*schedulingv1alpha1.Device{} },
			want:      missing,
		},
		"no Device objects at all": {
			resources: schedtest.Resources{"koordinator.sh/gpu": "100"},
			devices:   func([]*schedulingv1alpha1.Device) []*schedulingv1alpha1.Device { return nil },
			want:      missing,
		},
		"too few": {resources: schedtest.Resources{"koordinator.sh/gpu": "1600"}, want: "0/1 members fit: 1 node short of " + few + "; a member requests more than any node has: " +
			"koordinator.sh/gpu-core 1600 of at most 800, koordinator.sh/gpu-memory-ratio 1600 of at most 800" + "0/1 nodes are unavailable: 1 Insufficient " + few + "."},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, devices := machines("n1")
			if tc.devices != nil {
				devices = tc.devices(devices)
			}
			podGroup, pods := gang("g", 1, tc.resources, tc.change...)
			w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods})
			got := w.allocate(t)
			if len(got.decided) > 0 {
				t.Errorf("placed %v", got.decided)
			}
			said := got.said["g-0"]
			if said != tc.want {
				t.Errorf("message %q, want %q", said, tc.want)
			}
		})
	}
}

// TestAPodThatCameBeforeTheBind checks that the pre-bind step fails if another scheduler has bound a pod that uses the
// member's device.
func TestAPodThatCameBeforeTheBind(t *testing.T) {
	const changed = "devices of node n1 changed after the pod was placed there: "
	ended := runningWith("other", "n1", "100", 0)
	ended.Status.Phase = v1.PodSucceeded
	silent := runningWith("other", "n1", "100")
	delete(silent.Annotations, schedulingv1alpha1.DeviceAllocatedAnnotation)
	silent.Spec.Containers[0].Resources.Limits = v1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	alone := runningWith("other", "n1", "100", 1)
	annotated(schedulingv1alpha1.DeviceAllocatedAnnotation, `{"gpu":[{"minor":1,"extension":{"exclusivePolicy":"PCIeLevel"}}]}`)(alone)
	itself := runningWith("g-0", "n1", "100", 0)
	itself.UID = types.UID(schedtest.Namespace + "-g-0")
	tests := map[string]struct {
		other *v1.Pod
		want  string
	}{
		"with the device":                    {other: runningWith("other", "n1", "100", 0), want: changed + "device gpu 0 (n1-gpu-0) is overcommitted: koordinator.sh/gpu-core 150 of 100 is in use"},
		"with a part of it that is left":     {other: runningWith("other", "n1", "50", 0)},
		"with another device":                {other: runningWith("other", "n1", "100", 1)},
		"with the device of another node":    {other: runningWith("other", "n2", "100", 0)},
		"that has ended":                     {other: ended},
		"that does not say what it has":      {other: silent, want: "node n1 has pod ns/other whose devices are unknown: its annotation scheduling.koordinator.sh/device-allocated is missing or invalid; delete that pod, or wait until it ends"},
		"that has the PCIe switch to itself": {other: alone, want: changed + "a device of type gpu is used by or reserved for other pods"},
		"which is the member":                {other: itself},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, devices := machines("n1", "n2")
			podGroup, pods := gang("g", 1, schedtest.Resources{"koordinator.sh/gpu": "50"}, func(pod *v1.Pod) {
				pod.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": "n1"}
			})
			nodes[0].Labels = map[string]string{"kubernetes.io/hostname": "n1"}
			w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods})
			out := w.allocate(t)
			bind := out.handed[schedtest.Namespace+"/g-0"]
			if got := devicesOf(t, bind.Decided[schedulingv1alpha1.DeviceAllocatedAnnotation]); got != "gpu 0" {
				t.Fatalf("the member was given %s, want gpu 0", got)
			}
			if tc.other.Name == "g-0" && bind.Task.Pod.UID != itself.UID {
				t.Fatalf("the UID of the member is %s", bind.Task.Pod.UID)
			}
			step, _ := stepOf(t, out)
			w.AddPod(tc.other)
			switch err := step.PreBind(t.Context(), bind.Task, "n1"); {
			case tc.want == "" && err != nil:
				t.Errorf("the step failed: %v", err)
			case tc.want != "" && (err == nil || err.Error() != tc.want):
				t.Errorf("the step returned %v, want %q", err, tc.want)
			}
		})
	}
}

// TestMessagesOfArguments has the errors of invalid arguments.
func TestMessagesOfArguments(t *testing.T) {
	tests := map[string]struct {
		conf string
		// want is the error after the line and the plugin.
		want string
	}{
		"nothing":                 {"", ""},
		"upstream's":              {"deviceshare.VGPUEnable: true", ""},
		"upstream's that exclude": {"deviceshare.VGPUEnable: true, deviceshare.GPUSharingEnable: true", "deviceshare.VGPUEnable conflicts with deviceshare.GPUSharingEnable; keep one of them true"},
		"a strategy":              {"scoringStrategy: {type: MostAllocated, resources: [{name: koordinator.sh/gpu-core, weight: 3}]}", ""},
		"an unknown strategy":     {"scoringStrategy: {type: Most}", `scoringStrategy.type: found "Most", want one of Fragmentation, LeastAllocated, MostAllocated`},
		"a weight below zero":     {"scoringStrategy: {weight: -1}", "scoringStrategy.weight: found -1, want a weight from 0 to 1000000"},
		"a resource without effect": {"scoringStrategy: {resources: [{name: koordinator.sh/gpu-core, weight: 1}]}",
			"scoringStrategy.resources: has no effect with type Fragmentation; remove it"},
		"a resource that is no device's": {"scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 1}]}", `scoringStrategy.resources[0].name: found "cpu", want a resource of devices, such as koordinator.sh/gpu-memory-ratio`},
		"a weight of a resource":         {"scoringStrategy: {type: LeastAllocated, resources: [{name: koordinator.sh/rdma, weight: 101}]}", "scoringStrategy.resources[0].weight: found 101, want a weight from 1 to 100"},
		"a misspelt field":               {"scoringStrategy: {typ: LeastAllocated}", `scoringStrategy: invalid value "typ: LeastAllocated": unknown field "typ"`},
		"a model without a name":         {"gpuShareUnsupportedModels: [{vendor: nvidia}]", "gpuShareUnsupportedModels[0]: found no model, want vendor and model"},
		"no name of a ConfigMap":         {"gpuSharedResourceTemplatesConfig: {configMapName: A_B}", `gpuSharedResourceTemplatesConfig: found "A_B", want the name of a ConfigMap and its namespace: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`},
		"no key of a label":              {"nicTopologyKey: a b", `nicTopologyKey: found "a b", want the key of a label: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			text := "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: deviceshare\n    arguments: {" + tc.conf + "}\n"
			_, err := config.Parse([]byte(text), config.NewCatalogue(deviceshare.Spec()))
			got := ""
			if err != nil {
				got = err.Error()
			}
			want := tc.want
			switch {
			// Conflicts of upstream's arguments are reported on the plugin's last line.
			case strings.Contains(tc.conf, "GPUSharingEnable"):
				want = `line 6: plugin "deviceshare": ` + want
			case want != "":
				want = `line 5: plugin "deviceshare": ` + want
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}
