// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// noProvisioner is the provisioner of storage classes whose volumes exist before the claims.
const noProvisioner = "kubernetes.io/no-provisioner"

// TestVolumes: The volumes of the claims are bound when the first pod of each claim has a node.
func TestVolumes(t *testing.T) { bindingVolumes(t, volumes) }

func volumes(t *testing.T, bound func(behaviour) behaviour) {
	group := func(minMember int32) []*v1beta1.PodGroup {
		return []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(minMember).Obj()}
	}
	with := func(claim, name string) *v1.Pod {
		return schedtest.MakePod().Group("g").Req(cores("1")).Volume(claim).Name(name).Obj()
	}
	two := []*v1.Pod{with("c0", "g-0"), with("c1", "g-1")}
	claims := []runtime.Object{schedtest.LateClass("late", noProvisioner), schedtest.UnboundClaim("c0", "late"), schedtest.UnboundClaim("c1", "late")}
	objects := func(volumes ...runtime.Object) []runtime.Object { return slices.Concat(claims, volumes) }
	cases := map[string]behaviour{
		"a gang with a volume for each is placed": {
			world: sessiontest.ClusterSpec{
				Nodes: nodes(holds("2"), "n1"), PodGroups: group(2), Pods: two,
				Objects: objects(schedtest.FreeVolume("v0", "late"), schedtest.FreeVolume("v1", "late")),
			},
			binds: map[string]string{"g-0": "n1", "g-1": "n1"},
		},
		"a gang with a volume for each waits for cpu": {
			world: sessiontest.ClusterSpec{
				Nodes: nodes(holds("1"), "n1"), PodGroups: group(2), Pods: two,
				Objects: objects(schedtest.FreeVolume("v0", "late"), schedtest.FreeVolume("v1", "late")),
			},
		},
		"one volume is not given to two members": {
			world: sessiontest.ClusterSpec{
				Nodes: nodes(holds("2"), "n1"), PodGroups: group(2), Pods: two,
				Objects: objects(schedtest.FreeVolume("v0", "late")),
			},
		},
		"above the minimum it is given to one": {
			world: sessiontest.ClusterSpec{
				Nodes: nodes(holds("2"), "n1"), PodGroups: group(1), Pods: two,
				Objects: objects(schedtest.FreeVolume("v0", "late")),
			},
			binds: map[string]string{"g-0": "n1"},
		},
		"members go where their volumes are": {
			world: sessiontest.ClusterSpec{
				Nodes: nodes(holds("4"), "n1", "n2", "n3"), PodGroups: group(2), Pods: two,
				Objects: objects(schedtest.FreeVolume("v0", "late", "n2"), schedtest.FreeVolume("v1", "late", "n3")),
			},
			binds: map[string]string{"g-0": "n2|n3", "g-1": "n2|n3"},
			check: func(t *testing.T, ssn *sessiontest.Session) {
				if got := uniqueNodes(ssn); len(got) != 2 {
					t.Errorf("nodes %v, want n2 and n3, which have a volume each", got)
				}
			},
		},
		"a claim that does not exist keeps its pod out": {
			world: sessiontest.ClusterSpec{
				Nodes: nodes(holds("4"), "n1"), PodGroups: group(1), Pods: []*v1.Pod{with("gone", "g-0"), with("c1", "g-1")},
				Objects: objects(schedtest.FreeVolume("v0", "late")),
			},
			upstreamDiffers: "it gives the gang up at the first pod whose pre-predicate fails, although its minimum can be met",
			binds:           map[string]string{"g-1": "n1"},
		},
	}
	for name, tc := range cases {
		cases[name] = bound(tc)
	}
	runTable(t, cases)
}

// dynamicResources is plain plus devices of ResourceClaims.
const dynamicResources = `
actions: allocate
tiers:
- plugins:
  - name: gang
  - name: predicates
    arguments:
      predicate.DynamicResourceAllocationEnable: true
`

func TestResourceClaims(t *testing.T) {
	class := func(expression string) *resourcev1.DeviceClass {
		return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "fpga"}, Spec: resourcev1.DeviceClassSpec{
			Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}},
		}}
	}
	claim := func(name string) *resourcev1.ResourceClaim {
		return &resourcev1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: schedtest.Namespace, UID: types.UID("ns-" + name), ResourceVersion: "1"},
			Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
				Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "fpga", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1},
			}}}},
		}
	}
	slice := func(node string, devices ...string) *resourcev1.ResourceSlice {
		s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: resourcev1.ResourceSliceSpec{
			NodeName: &node, Driver: "fpga.example.com", Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		}}
		for _, device := range devices {
			s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: device})
		}
		return s
	}
	pods := []*v1.Pod{
		schedtest.MakePod().Group("g").Req(cores("1")).ResourceClaim("c0").Name("g-0").Obj(),
		schedtest.MakePod().Group("g").Req(cores("1")).ResourceClaim("c1").Name("g-1").Obj(),
	}
	group := func(minMember int32) []*v1beta1.PodGroup {
		return []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(minMember).Obj()}
	}
	ofDriver := class("device.driver == 'fpga.example.com'")
	cases := map[string]behaviour{
		"members get a device each": {
			world: sessiontest.ClusterSpec{
				Nodes: nodes(holds("4"), "n1", "n2"), PodGroups: group(2), Pods: pods,
				Objects: []runtime.Object{ofDriver, claim("c0"), claim("c1"), slice("n2", "d0", "d1")},
			},
			binds: map[string]string{"g-0": "n2", "g-1": "n2"},
		},
		"one device is not given to two members": {
			world: sessiontest.ClusterSpec{
				Nodes: nodes(holds("4"), "n1", "n2"), PodGroups: group(2), Pods: pods,
				Objects: []runtime.Object{ofDriver, claim("c0"), claim("c1"), slice("n2", "d0")},
			},
		},
		"above the minimum it is given to one": {
			world: sessiontest.ClusterSpec{
				Nodes: nodes(holds("4"), "n1", "n2"), PodGroups: group(1), Pods: pods,
				Objects: []runtime.Object{ofDriver, claim("c0"), claim("c1"), slice("n2", "d0")},
			},
			binds: map[string]string{"g-0": "n2"},
		},
		"a class whose selector fails keeps the gang out": {
			world: sessiontest.ClusterSpec{
				Nodes: nodes(holds("4"), "n1"), PodGroups: group(1), Pods: pods[:1],
				Objects: []runtime.Object{class(`device.attributes["other.example.com"].healthy`), claim("c0"), slice("n1", "d0")},
			},
		},
	}
	for name, tc := range cases {
		tc.conf = dynamicResources
		cases[name] = tc
	}
	runTable(t, cases)
}
