// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// wakeful counts how many sessions are requested.
type wakeful struct {
	framework.Handle
	wakes atomic.Int64
}

func (w *wakeful) Wake() { w.wakes.Add(1) }

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return is(), nil }); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// TestChangesOfDeviceObjects checks that a change of a Device object's devices, labels or annotations requests a
// session, and that the node's devices are counted again. Other changes of the object have no effect. The vendor is
// read from the node's label.
func TestChangesOfDeviceObjects(t *testing.T) {
	device := func(gpus int32) *schedulingv1alpha1.Device {
		d := &schedulingv1alpha1.Device{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
		for minor := range gpus {
			d.Spec.Devices = append(d.Spec.Devices, schedulingv1alpha1.DeviceInfo{Type: "gpu", Minor: &minor, Health: true,
				Resources: v1.ResourceList{"koordinator.sh/gpu-core": resource.MustParse("100")}})
		}
		return d
	}
	cluster := sessiontest.New(sessiontest.ClusterSpec{Devices: []*schedulingv1alpha1.Device{device(1)}})
	t.Cleanup(cluster.Close)
	h := &wakeful{Handle: cluster.Handle()}
	devices, err := (&framework.Kept[*clusterDevices]{}).Of(h, watchDevices)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first list", func() bool { return devices.of("n1") != nil && h.wakes.Load() == 1 })
	if diff := cmp.Diff([]string{"n1"}, devices.counter.takeChanged()); diff != "" {
		t.Errorf("nodes to count (-want +got):\n%s", diff)
	}
	if again := devices.counter.takeChanged(); len(again) > 0 {
		t.Errorf("nodes to count in the second call are %v, want none", again)
	}
	node := schedtest.MakeNode().Name("n1").Obj()
	node.Labels = map[string]string{schedulingv1alpha1.GPUVendorLabel: "huawei"}
	inventories := devices.inventoriesOf(allocator.InventoryOptions{})
	nodes := map[string]*api.NodeInfo{"n1": {Name: "n1", Node: node}}
	supplied := &supplies{}
	gpus := func() (n int) {
		for _, count := range supplied.of(inventories, nodes) {
			n += count
		}
		return n
	}
	if got := gpus(); got != 1 {
		t.Errorf("the cluster has %d GPUs, want 1", got)
	}

	labelled, noted := device(2), device(2)
	labelled.Labels = map[string]string{"a": "b"}
	noted.Labels, noted.Annotations = labelled.Labels, map[string]string{schedulingv1alpha1.GPUPartitionsAnnotation: "{}"}
	same := noted.DeepCopy()
	same.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "agent"}}
	for _, step := range []struct {
		name string
		put  *schedulingv1alpha1.Device
		is   func(*schedulingv1alpha1.Device) bool
		wake bool
	}{
		{"devices", device(2), func(d *schedulingv1alpha1.Device) bool { return len(d.Spec.Devices) == 2 }, true},
		{"a label", labelled, func(d *schedulingv1alpha1.Device) bool { return d.Labels["a"] == "b" }, true},
		{"an annotation", noted, func(d *schedulingv1alpha1.Device) bool { return len(d.Annotations) > 0 }, true},
		{"nothing that is read", same, func(d *schedulingv1alpha1.Device) bool { return len(d.ManagedFields) > 0 }, false},
	} {
		wakes := h.wakes.Load()
		cluster.Devices().Put(step.put)
		eventually(t, step.name, func() bool {
			d := devices.of("n1")
			return d != nil && step.is(d) && (!step.wake || h.wakes.Load() == wakes+1)
		})
		if got := devices.counter.takeChanged(); slices.Contains(got, "n1") != step.wake {
			t.Errorf("%s: the nodes to count are %v", step.name, got)
		}
		if latest := inventories.latest("n1"); latest.Vendor != "huawei" {
			t.Errorf("%s: the vendor is %q, want the node's label", step.name, latest.Vendor)
		}
		if got := gpus(); got != 2 {
			t.Errorf("%s: the cluster has %d GPUs, want 2", step.name, got)
		}
	}
	wakes := h.wakes.Load()
	// Once the informer has delivered this object, it has also delivered the earlier update without changes.
	cluster.Devices().Put(schedulingDevice("n2"))
	eventually(t, "another", func() bool { return h.wakes.Load() > wakes })
	if got := h.wakes.Load(); got != wakes+1 {
		t.Errorf("%d sessions were requested by an update without changes and by another object, want 1", got-wakes)
	}
	cluster.Devices().Remove("n1")
	eventually(t, "its end", func() bool { return devices.of("n1") == nil && h.wakes.Load() == wakes+2 })
	if inventories.latest("n1") != nil || inventories.of(node) != nil {
		t.Error("the inventory of a deleted Device object still exists")
	}
	if got := inventories.capacityOf(node, allocator.Amounts{})[allocator.Core]; got != 200 {
		t.Errorf("after the Device object was deleted, pods on its node may count %d, want 200 as before", got)
	}
	for i := range 200 {
		inventories.capacities[fmt.Sprint("gone-", i)] = allocator.Amounts{}
	}
	inventories.keepOnly(nodes)
	if len(inventories.capacities) != 1 {
		t.Errorf("the capacities of %d nodes are kept, want only that of the existing node", len(inventories.capacities))
	}
}

// TestNodesKeepTheNumberOfTheirGPUs checks that a node's capacity stays the same when the node reports no GPUs for a
// time, because its kubelet or device plugin restarts.
func TestNodesKeepTheNumberOfTheirGPUs(t *testing.T) {
	cluster := sessiontest.New(sessiontest.ClusterSpec{})
	t.Cleanup(cluster.Close)
	devices, err := (&framework.Kept[*clusterDevices]{}).Of(&wakeful{Handle: cluster.Handle()}, watchDevices)
	if err != nil {
		t.Fatal(err)
	}
	inventories, node := devices.inventoriesOf(allocator.InventoryOptions{}), schedtest.MakeNode().Name("n1").Obj()
	for _, gpus := range []string{"4", "0"} {
		node.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse(gpus)
		if got := inventories.capacityOf(node, allocator.NumberedGPUs(node, 0))[allocator.Core]; got != 400 {
			t.Errorf("pods on a node that reported 4 GPUs and now reports %s may count %d, want 400", gpus, got)
		}
	}
}

func schedulingDevice(name string) *schedulingv1alpha1.Device {
	return &schedulingv1alpha1.Device{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// TestStateKeptAcrossReloads: configurations share the informer of Device objects. Each ConfigMap has its own
// templates.
func TestStateKeptAcrossReloads(t *testing.T) {
	cluster := sessiontest.New(sessiontest.ClusterSpec{Devices: []*schedulingv1alpha1.Device{schedulingDevice("n1")}})
	t.Cleanup(cluster.Close)
	spec := Spec()
	build := func(args framework.Arguments) *plugin {
		t.Helper()
		built, err := spec.New(args, cluster.Handle())
		if err != nil {
			t.Fatal(err)
		}
		return built.(*plugin)
	}
	first := build(nil)
	second := build(framework.Arguments{nicTopologyArgument: "example.com/root"})
	third := build(framework.Arguments{templatesArgument: map[string]any{"configMapName": "others"}})
	if first.inventories.devices != second.inventories.devices {
		t.Error("two configurations have different informers of Device objects")
	}
	if first.inventories == second.inventories || first.inventories != third.inventories {
		t.Error("inventories are not shared by configurations with equal options")
	}
	if first.templates == third.templates || first.templates != second.templates {
		t.Error("templates are not shared by configurations with the same ConfigMap")
	}
}

// backend is a device backend of upstream that refuses pods or returns an error.
type backend struct {
	api.Devices
	code int
	err  error
}

func (b *backend) HasDeviceRequest(*v1.Pod) bool { return true }

func (b *backend) FilterNode(*v1.Pod, string) (int, string, error) { return b.code, "no room", b.err }

// TestRefusalsOfUpstreamsBackends: a node is refused if a backend refuses it or returns an error.
func TestRefusalsOfUpstreamsBackends(t *testing.T) {
	before := api.RegisteredDevices
	t.Cleanup(func() { api.RegisteredDevices = before })
	api.RegisteredDevices = []string{"b"}
	for name, tc := range map[string]struct {
		backend api.Devices
		refused bool
	}{
		"has room":     {backend: &backend{code: api.Success}},
		"has none":     {backend: &backend{code: api.Unschedulable}, refused: true},
		"cannot tell":  {backend: &backend{code: api.Success, err: errors.New("lost")}, refused: true},
		"has none yet": {backend: (*backend)(nil)},
	} {
		node := &api.NodeInfo{Name: "n1", Others: map[string]any{"b": tc.backend}}
		err := backends{}.predicate(&api.TaskInfo{Pod: &v1.Pod{}}, node)
		var fit *api.FitError
		if (err != nil) != tc.refused || tc.refused && (!errors.As(err, &fit) || fit.Status[0].Plugin != Name) {
			t.Errorf("a backend that %s: %v", name, err)
		}
	}
}

// TestModelsThatAPodAllows checks which models a pod allows by its node selector and required affinity.
func TestModelsThatAPodAllows(t *testing.T) {
	term := func(key string, operator v1.NodeSelectorOperator, values ...string) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
	}
	const model = schedulingv1alpha1.GPUModelLabel
	tests := map[string]struct {
		selector map[string]string
		terms    []v1.NodeSelectorTerm
		want     []string
	}{
		"any":                         {},
		"a selector":                  {selector: map[string]string{model: "A"}, want: []string{"A"}},
		"terms":                       {terms: []v1.NodeSelectorTerm{term(model, v1.NodeSelectorOpIn, "A", "B"), term(model, v1.NodeSelectorOpIn, "C")}, want: []string{"A", "B", "C"}},
		"one of the terms allows any": {terms: []v1.NodeSelectorTerm{term(model, v1.NodeSelectorOpIn, "A"), term("zone", v1.NodeSelectorOpIn, "z")}},
		"not a model":                 {terms: []v1.NodeSelectorTerm{term(model, v1.NodeSelectorOpNotIn, "A")}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{NodeSelector: tc.selector}}
			if tc.terms != nil {
				pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: tc.terms}}}
			}
			if diff := cmp.Diff(tc.want, modelsOf(pod)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
