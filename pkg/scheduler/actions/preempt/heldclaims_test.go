// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// ownClaim returns a ResourceClaim for one GPU.
func ownClaim(name string) *resourcev1.ResourceClaim {
	return schedtest.DeviceClaim(name, schedtest.DeviceRequest("r", "gpu", 1))
}

// allocatedTo returns the claim with the device of the node, in use by the pod.
func allocatedTo(claim *resourcev1.ResourceClaim, pod, node, device string) *resourcev1.ResourceClaim {
	claim.Status.Allocation = &resourcev1.AllocationResult{
		Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: schedtest.DeviceDriver, Pool: node, Device: device}}},
		NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{node}}},
		}}},
	}
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: pod, UID: types.UID(schedtest.Namespace + "-" + pod)}}
	return claim
}

// usedAlsoBy returns the claim in use by one pod more.
func usedAlsoBy(claim *resourcev1.ResourceClaim, pod string) *resourcev1.ResourceClaim {
	claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod, UID: types.UID(schedtest.Namespace + "-" + pod)})
	return claim
}

// asks adds the claim of the same name to each of the pods.
func asks(w *sessiontest.ClusterSpec, pods ...string) {
	change(w, func(pod *v1.Pod) {
		one := schedtest.MakePod().ResourceClaim(pod.Name).Obj()
		pod.Spec.ResourceClaims, pod.Spec.Containers[0].Resources.Claims = one.Spec.ResourceClaims, one.Spec.Containers[0].Resources.Claims
	}, pods...)
}

// mounts adds a volume with the PersistentVolumeClaim to each of the pods.
func mounts(w *sessiontest.ClusterSpec, claim string, pods ...string) {
	change(w, func(pod *v1.Pod) { pod.Spec.Volumes = schedtest.MakePod().Volume(claim).Obj().Spec.Volumes }, pods...)
}

// claimsCase is a cluster of nodes with 5 CPUs whose pods have claims. later-0 is created after the first session.
type claimsCase struct {
	gangs   []gang
	objects []runtime.Object
	change  func(*sessiontest.ClusterSpec)
	evicted []string
	// bound are the pods that the next session binds, with their nodes.
	bound map[string]string
}

func (c *claimsCase) run(t *testing.T, plugin string) {
	w := world(nodesOf(2, "5"), c.gangs...)
	c.change(&w)
	first := w
	first.Objects = c.objects
	first.Pods = slices.DeleteFunc(slices.Clone(w.Pods), func(pod *v1.Pod) bool { return pod.Name == "later-0" })
	cl := newCluster(first, withPlugin(plugin))
	defer cl.close()
	got := cl.session()
	if !slices.Equal(got.evicted, c.evicted) || len(got.bound) > 0 {
		t.Fatalf("evicted %v and bound %v, want %v and none; reason: %s", got.evicted, got.bound, c.evicted, got.reasons["new"])
	}
	cl.Load(without(w, got))
	next := cl.session()
	if diff := cmp.Diff(c.bound, next.nodes); diff != "" {
		t.Errorf("nodes of the pods that are bound then (-want +got):\n%s\nreasons: %v", diff, next.reasons)
	}
}

// TestVictimsWithResourceClaims checks gangs whose members have ResourceClaims. Evictions give them the devices of victims, and the
// nodes of free devices. After a trial without success, its devices are free. The devices of a victim stay allocated in these tests,
// because no controller deallocates them, so a gang that needs them is not bound in the next session.
func TestVictimsWithResourceClaims(t *testing.T) {
	class := schedtest.DeviceClass("gpu")
	later := gang{name: "later", min: 1, priority: 1, cpu: "1", pending: 1}
	for name, c := range map[string]claimsCase{
		"the node with a free device is freed": {
			gangs: []gang{
				{name: "cheap", min: 1, priority: 1, cpu: "5", on: []string{"n0"}},
				{name: "dear", min: 1, priority: 5, cpu: "5", on: []string{"n1"}},
				{name: "new", min: 1, priority: 9, cpu: "5", pending: 1},
			},
			objects: []runtime.Object{class, schedtest.NodeDevices("n1", "gpu-0"), ownClaim("new-0")},
			change:  func(w *sessiontest.ClusterSpec) { asks(w, "new-0") },
			evicted: []string{"dear-0"}, bound: map[string]string{"new-0": "n1"},
		},
		"the node of the claim's device is freed": {
			gangs: []gang{
				{name: "cheap", min: 1, priority: 1, cpu: "5", on: []string{"n0"}},
				{name: "dear", min: 1, priority: 5, cpu: "5", on: []string{"n1"}},
				{name: "new", min: 1, priority: 9, cpu: "5", pending: 1},
			},
			objects: []runtime.Object{class, schedtest.NodeDevices("n0", "gpu-0"), schedtest.NodeDevices("n1", "gpu-0"), allocatedTo(ownClaim("new-0"), "former", "n1", "gpu-0")},
			change:  func(w *sessiontest.ClusterSpec) { asks(w, "new-0") },
			evicted: []string{"dear-0"}, bound: map[string]string{"new-0": "n1"},
		},
		"the device of the victim": {
			gangs: []gang{
				{name: "old", min: 1, priority: 1, cpu: "5", on: []string{"n0"}},
				{name: "new", min: 1, priority: 9, cpu: "5", pending: 1},
			},
			objects: []runtime.Object{class, schedtest.NodeDevices("n0", "gpu-0"), allocatedTo(ownClaim("old-0"), "old-0", "n0", "gpu-0"), ownClaim("new-0")},
			change:  func(w *sessiontest.ClusterSpec) { asks(w, "old-0", "new-0") },
			evicted: []string{"old-0"}, bound: map[string]string{},
		},
		"the device of the victim on a node with idle CPUs": {
			gangs: []gang{
				{name: "cheap", min: 1, priority: 1, cpu: "1", on: []string{"n0"}},
				{name: "dear", min: 1, priority: 5, cpu: "1", on: []string{"n0"}},
				{name: "new", min: 1, priority: 9, cpu: "1", pending: 1},
			},
			objects: []runtime.Object{class, schedtest.NodeDevices("n0", "gpu-0"), allocatedTo(ownClaim("dear-0"), "dear-0", "n0", "gpu-0"), ownClaim("new-0")},
			change:  func(w *sessiontest.ClusterSpec) { asks(w, "dear-0", "new-0") },
			evicted: []string{"dear-0"}, bound: map[string]string{},
		},
		"the devices of all victims, and an idle one": {
			gangs: []gang{
				{name: "a", min: 1, priority: 1, cpu: "1", on: []string{"n0"}},
				{name: "b", min: 1, priority: 2, cpu: "1", on: []string{"n1"}},
				{name: "new", min: 3, priority: 9, cpu: "1", pending: 3},
			},
			objects: []runtime.Object{
				class, schedtest.NodeDevices("n0", "gpu-0", "gpu-1"), schedtest.NodeDevices("n1", "gpu-0"),
				allocatedTo(ownClaim("a-0"), "a-0", "n0", "gpu-1"), allocatedTo(ownClaim("b-0"), "b-0", "n1", "gpu-0"),
				ownClaim("new-0"), ownClaim("new-1"), ownClaim("new-2"),
			},
			change:  func(w *sessiontest.ClusterSpec) { asks(w, "a-0", "b-0", "new-0", "new-1", "new-2") },
			evicted: []string{"a-0", "b-0"}, bound: map[string]string{},
		},
		"no more devices than the gang needs": {
			gangs: []gang{
				{name: "a", min: 1, priority: 1, cpu: "1", on: []string{"n0"}},
				{name: "b", min: 1, priority: 2, cpu: "1", on: []string{"n1"}},
				{name: "new", min: 2, priority: 9, cpu: "1", pending: 2},
			},
			objects: []runtime.Object{
				class, schedtest.NodeDevices("n0", "gpu-0", "gpu-1"), schedtest.NodeDevices("n1", "gpu-0"),
				allocatedTo(ownClaim("a-0"), "a-0", "n0", "gpu-1"), allocatedTo(ownClaim("b-0"), "b-0", "n1", "gpu-0"),
				ownClaim("new-0"), ownClaim("new-1"),
			},
			change:  func(w *sessiontest.ClusterSpec) { asks(w, "a-0", "b-0", "new-0", "new-1") },
			evicted: []string{"a-0"}, bound: map[string]string{},
		},
		"not the device of a claim that a pod of higher priority uses, too": {
			gangs: []gang{
				{name: "old", min: 1, priority: 1, cpu: "1", on: []string{"n0"}},
				{name: "same", min: 1, priority: 9, cpu: "1", on: []string{"n1"}},
				{name: "new", min: 1, priority: 9, cpu: "1", pending: 1},
				later,
			},
			objects: []runtime.Object{
				class, schedtest.NodeDevices("n0", "gpu-0"), schedtest.NodeDevices("n1", "gpu-0"),
				usedAlsoBy(allocatedTo(ownClaim("old-0"), "old-0", "n0", "gpu-0"), "same-0"), ownClaim("new-0"), ownClaim("later-0"),
			},
			change: func(w *sessiontest.ClusterSpec) {
				asks(w, "old-0", "new-0", "later-0")
				change(w, func(pod *v1.Pod) { pod.Spec.NodeSelector = map[string]string{"name": "n0"} }, "new-0")
			},
			bound: map[string]string{"later-0": "n1"},
		},
		"the device of a member that was tried is free": {
			gangs: []gang{
				{name: "old", min: 0, priority: 1, cpu: "4", on: []string{"n0", "n1"}},
				{name: "same", min: 1, priority: 9, cpu: "1", on: []string{"n1"}},
				{name: "new", min: 2, priority: 9, cpu: "4", pending: 2},
				later,
			},
			objects: []runtime.Object{class, schedtest.NodeDevices("n0", "gpu-0"), schedtest.NodeDevices("n1", "gpu-0"), allocatedTo(ownClaim("same-0"), "same-0", "n1", "gpu-0"), ownClaim("new-0"), ownClaim("new-1"), ownClaim("later-0")},
			change:  func(w *sessiontest.ClusterSpec) { asks(w, "same-0", "new-0", "new-1", "later-0") },
			bound:   map[string]string{"later-0": "n0"},
		},
	} {
		t.Run(name, func(t *testing.T) { c.run(t, "dynamicresources") })
	}
}

// TestVictimsBesideVolumes checks gangs whose members have PersistentVolumeClaims.
func TestVictimsBesideVolumes(t *testing.T) {
	const noProvisioner = "kubernetes.io/no-provisioner"
	class := schedtest.LateClass("local", noProvisioner)
	later := gang{name: "later", min: 1, priority: 1, cpu: "1", pending: 1}
	bound := func(claim, volume string, mode v1.PersistentVolumeAccessMode, nodes ...string) []runtime.Object {
		c, pv := schedtest.UnboundClaim(claim, "local"), schedtest.FreeVolume(volume, "local", nodes...)
		c.Spec.AccessModes, pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{mode}, []v1.PersistentVolumeAccessMode{mode}
		schedtest.BindVolume(c, pv)
		return []runtime.Object{class, c, pv}
	}
	two := []gang{
		{name: "cheap", min: 1, priority: 1, cpu: "5", on: []string{"n0"}},
		{name: "dear", min: 1, priority: 5, cpu: "5", on: []string{"n1"}},
		{name: "new", min: 1, priority: 9, cpu: "5", pending: 1},
	}
	for name, c := range map[string]claimsCase{
		"the node of the local volume is freed": {
			gangs:   two,
			objects: bound("data", "disk", v1.ReadWriteOnce, "n1"),
			change:  func(w *sessiontest.ClusterSpec) { mounts(w, "data", "new-0") },
			evicted: []string{"dear-0"}, bound: map[string]string{"new-0": "n1"},
		},
		"the node with a free volume is freed": {
			gangs:   two,
			objects: []runtime.Object{class, schedtest.UnboundClaim("data", "local"), schedtest.FreeVolume("disk", "local", "n1")},
			change:  func(w *sessiontest.ClusterSpec) { mounts(w, "data", "new-0") },
			evicted: []string{"dear-0"}, bound: map[string]string{"new-0": "n1"},
		},
		"the volume of a member that was tried is free": {
			gangs: []gang{
				{name: "old", min: 0, priority: 1, cpu: "4", on: []string{"n0", "n1"}},
				{name: "new", min: 2, priority: 9, cpu: "4", pending: 2},
				later,
			},
			objects: []runtime.Object{class, schedtest.UnboundClaim("a", "local"), schedtest.UnboundClaim("b", "local"), schedtest.UnboundClaim("c", "local"), schedtest.FreeVolume("disk", "local", "n1")},
			change: func(w *sessiontest.ClusterSpec) {
				mounts(w, "a", "new-0")
				mounts(w, "b", "new-1")
				mounts(w, "c", "later-0")
			},
			bound: map[string]string{"later-0": "n1"},
		},
		"the only pod that may use a claim goes": {
			gangs: []gang{
				{name: "quiet", min: 1, priority: 1, cpu: "1", on: []string{"n0", "n1"}},
				{name: "user", min: 1, priority: 5, cpu: "1", on: []string{"n0"}},
				{name: "new", min: 1, priority: 9, cpu: "1", pending: 1},
			},
			// The API server has another pod with the claim, because informers, which show who else uses it, have none of the others.
			objects: append(bound("data", "disk", v1.ReadWriteOncePod), schedtest.MakePod().Name("another").Volume("data").Obj(), schedtest.MakePod().Name("new-0").Volume("data").Obj()),
			change: func(w *sessiontest.ClusterSpec) {
				mounts(w, "data", "user-0", "new-0")
				change(w, func(pod *v1.Pod) { pod.Spec.NodeSelector = map[string]string{"name": "n1"} }, "new-0")
			},
			evicted: []string{"user-0"}, bound: map[string]string{"new-0": "n1"},
		},
		"the pod on the node that uses the same disk goes": {
			gangs: []gang{
				{name: "quiet", min: 1, priority: 1, cpu: "1", on: []string{"n0", "n1"}},
				{name: "user", min: 1, priority: 5, cpu: "1", on: []string{"n0"}},
				{name: "same", min: 1, priority: 9, cpu: "1", on: []string{"n1"}},
				{name: "new", min: 1, priority: 9, cpu: "1", pending: 1},
			},
			objects: []runtime.Object{class},
			change: func(w *sessiontest.ClusterSpec) {
				disk := v1.Volume{Name: "disk", VolumeSource: v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{TargetPortal: "portal", IQN: "iqn"}}}
				change(w, func(pod *v1.Pod) { pod.Spec.Volumes = []v1.Volume{disk} }, "user-0", "same-0", "new-0")
			},
			evicted: []string{"user-0"}, bound: map[string]string{"new-0": "n0"},
		},
		"the only pod that may use a claim stays if its priority is no lower": {
			gangs: []gang{
				{name: "quiet", min: 1, priority: 1, cpu: "1", on: []string{"n0", "n1"}},
				{name: "user", min: 1, priority: 9, cpu: "1", on: []string{"n0"}},
				{name: "new", min: 1, priority: 9, cpu: "1", pending: 1},
				later,
			},
			objects: append(bound("data", "disk", v1.ReadWriteOncePod), bound("free", "other", v1.ReadWriteOncePod, "n0")[1:]...),
			change: func(w *sessiontest.ClusterSpec) {
				mounts(w, "data", "user-0", "new-0")
				mounts(w, "free", "later-0")
			},
			bound: map[string]string{"later-0": "n0"},
		},
	} {
		t.Run(name, func(t *testing.T) { c.run(t, "volumebinding") })
	}
}

// TestAClaimForOnePodStaysInUse checks the session after an eviction, in which the only pod that may use a claim still terminates.
// Action allocate places no other pod with the claim, and nothing else is evicted.
func TestAClaimForOnePodStaysInUse(t *testing.T) {
	w := world(nodesOf(2, "5"),
		gang{name: "user", min: 1, priority: 5, cpu: "1", on: []string{"n0"}},
		gang{name: "new", min: 1, priority: 9, cpu: "1", pending: 1})
	claim, pv := schedtest.UnboundClaim("data", "local"), schedtest.FreeVolume("disk", "local")
	claim.Spec.AccessModes, pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}, []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	schedtest.BindVolume(claim, pv)
	mounts(&w, "data", "user-0", "new-0")
	first := w
	first.Objects = []runtime.Object{schedtest.LateClass("local", "kubernetes.io/no-provisioner"), claim, pv}
	cl := newCluster(first, strings.Replace(withPlugin("volumebinding"), "- plugins:\n  - name: evictionbackoff\n", "", 1))
	defer cl.close()
	if got := cl.session(); !slices.Equal(got.evicted, []string{"user-0"}) {
		t.Fatalf("evicted %v, want user-0; reason: %s", got.evicted, got.reasons["new"])
	}
	change(&w, leaves, "user-0")
	cl.Load(w)
	if got := cl.session(); len(got.evicted)+len(got.bound) > 0 {
		t.Errorf("evicted %v and bound %v, want neither while the claim is in use", got.evicted, got.bound)
	}
}

// TestAVictimsDeviceIsKeptForTheGang checks the session after an eviction, in which the victim still terminates and has its device.
// Nothing else is evicted, and the gang waits for the device.
func TestAVictimsDeviceIsKeptForTheGang(t *testing.T) {
	w := world(nodesOf(2, "5"),
		gang{name: "old", min: 1, priority: 1, cpu: "5", on: []string{"n0"}},
		gang{name: "other", min: 1, priority: 1, cpu: "5", on: []string{"n1"}},
		gang{name: "new", min: 1, priority: 9, cpu: "5", pending: 1},
		gang{name: "later", min: 1, priority: 5, cpu: "5", pending: 1})
	asks(&w, "old-0", "other-0", "new-0", "later-0")
	first := w
	first.Objects = []runtime.Object{
		schedtest.DeviceClass("gpu"), schedtest.NodeDevices("n0", "gpu-0"), schedtest.NodeDevices("n1", "gpu-0"),
		allocatedTo(ownClaim("old-0"), "old-0", "n0", "gpu-0"), usedAlsoBy(allocatedTo(ownClaim("other-0"), "other-0", "n1", "gpu-0"), "elsewhere"),
		ownClaim("new-0"), ownClaim("later-0"),
	}
	cl := newCluster(first, withPlugin("dynamicresources"))
	defer cl.close()
	if got := cl.session(); !slices.Equal(got.evicted, []string{"old-0"}) {
		t.Fatalf("evicted %v, want old-0; reasons: %v", got.evicted, got.reasons)
	}
	change(&w, leaves, "old-0")
	cl.Load(w)
	got := cl.session()
	if want := map[string]string{"new-0": "n0"}; len(got.evicted)+len(got.bound) > 0 || !maps.Equal(got.pipelined, want) {
		t.Errorf("evicted %v, bound %v, and %v wait for resources, want neither and %v; reasons: %v", got.evicted, got.bound, got.pipelined, want, got.reasons)
	}
}

// TestADeviceInUseIsNotBound checks two pods with one claim, of which one waits for a pod that terminates and has the only device. The
// other fits into the idle resources, and is not bound before the device is free.
func TestADeviceInUseIsNotBound(t *testing.T) {
	w := world(map[string]string{"n0": "6"},
		gang{name: "old", min: 1, priority: 1, cpu: "4", on: []string{"n0"}},
		gang{name: "big", min: 1, priority: 9, cpu: "5", pending: 1},
		gang{name: "small", min: 1, priority: 5, cpu: "1", pending: 1})
	asks(&w, "old-0")
	change(&w, func(pod *v1.Pod) {
		one := schedtest.MakePod().ResourceClaim("shared").Obj()
		pod.Spec.ResourceClaims, pod.Spec.Containers[0].Resources.Claims = one.Spec.ResourceClaims, one.Spec.Containers[0].Resources.Claims
	}, "big-0", "small-0")
	change(&w, leaves, "old-0")
	w.Objects = []runtime.Object{schedtest.DeviceClass("gpu"), schedtest.NodeDevices("n0", "gpu-0"), allocatedTo(ownClaim("old-0"), "old-0", "n0", "gpu-0"), ownClaim("shared")}
	got := runWith(t, w, withPlugin("dynamicresources"))
	if len(got.bound) > 0 {
		t.Errorf("bound %v, though the only device is in use by old-0; pipelined %v %v", got.bound, got.pipelined, got.reasons)
	}
}
