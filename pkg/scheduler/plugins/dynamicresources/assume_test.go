// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

const noneFree = `claim %q (request "r", class "gpu"): node(s) without a free device for it`

// TestTwoMembersDoNotCountOnOneDevice checks that a device assumed for one member is not free for the next one until it
// is released.
func TestTwoMembersDoNotCountOnOneDevice(t *testing.T) {
	var tasks = []string{"p0", "p1", "p2"}
	objects := gpus("n", "m")
	for _, name := range tasks {
		objects = append(objects, made(member(name, "made t"), "t", one()))
	}
	run(t, objects, func(w *testCluster) {
		p0, p1, p2 := member("p0", "made t"), member("p1", "made t"), member("p2", "made t")
		w.mustPlace(p0, "n")
		w.mustPlace(p1, "n")
		if got, want := w.fits(p2, "n"), fmt.Sprintf(noneFree, "p2-t"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := w.fits(p2, "m"); got != "" {
			t.Errorf("the task does not fit on the other node: %s", got)
		}
		w.take(p0)
		w.mustPlace(p2, "n")
		w.take(p1)
		w.take(p2)
		w.nothingAssumed()
	})
}

// TestTheVerdictOfAPlacedTaskIsOfTheNext: the filter's result for a task that is already placed says whether another
// task with equal claims fits, because such tasks share a cached result.
func TestTheVerdictOfAPlacedTaskIsOfTheNext(t *testing.T) {
	p0, p1 := member("p0", "made t"), member("p1", "made t")
	run(t, append(gpus("n"), made(p0, "t", one()), made(p1, "t", one())), func(w *testCluster) {
		w.mustPlace(p0, "n")
		if got := w.fits(p0, "n"); got != "" {
			t.Errorf("no device is free for the next task: %s", got)
		}
		w.mustPlace(p1, "n")
		if got := w.fits(p0, "n"); got == "" {
			t.Error("a device is free for another task, want none")
		}
	})
}

// TestMembersMakeRoomForEachOther: if two members can use a device, and one of them can use no other, the other member
// gets another device.
func TestMembersMakeRoomForEachOther(t *testing.T) {
	easy, onlyA := member("any", "made t"), member("only-a", "made t")
	run(t, append(gpus("n"), made(easy, "t", one()), made(onlyA, "t", one(modelA))), func(w *testCluster) {
		w.mustPlace(easy, "n")
		if diff := cmp.Diff([]string{"gpu-0"}, w.devicesOf("any-t")); diff != "" {
			t.Fatalf("devices (-want +got):\n%s", diff)
		}
		w.mustPlace(onlyA, "n")
		for claim, want := range map[string][]string{"any-t": {"gpu-1"}, "only-a-t": {"gpu-0"}} {
			if diff := cmp.Diff(want, w.devicesOf(claim)); diff != "" {
				t.Errorf("devices of %s (-want +got):\n%s", claim, diff)
			}
		}
		w.mustPreBind(easy)
		w.take(onlyA)
		if diff := cmp.Diff([]string{"gpu-1"}, w.devicesOf("any-t")); diff != "" {
			t.Errorf("devices after the other member was released (-want +got):\n%s", diff)
		}
		w.rollBack(easy)
		w.untouched("any-t", "only-a-t")
		w.nothingAssumed()
	})
}

// TestAllocationsUnderWayAreNotMoved checks that an assumed device is not exchanged if its pre-bind step has begun, if
// it is being released, or if an earlier session placed its pod.
func TestAllocationsUnderWayAreNotMoved(t *testing.T) {
	for name, after := range map[string]func(w *testCluster, placed string){
		"begun":                  func(w *testCluster, placed string) { w.mustPreBind(w.tasks[placed]) },
		"of a session before":    func(w *testCluster, _ string) { w.open() },
		"that is being released": func(w *testCluster, placed string) { w.plugin.devices.leave(w.tasks[placed].Pod.UID) },
	} {
		t.Run(name, func(t *testing.T) {
			easy, onlyA := member("any", "made t"), member("only-a", "made t")
			run(t, append(gpus("n"), made(easy, "t", one()), made(onlyA, "t", one(modelA))), func(w *testCluster) {
				w.mustPlace(easy, "n")
				after(w, "any")
				if got, want := w.fits(onlyA, "n"), fmt.Sprintf(noneFree, "only-a-t"); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
				if err := w.place(onlyA, "n"); err == nil {
					t.Error("Reserve succeeded, want an error")
				}
			})
		})
	}
}

// TestASharedClaimIsNotMoved checks that the devices of a shared claim are not exchanged if the allocation is already
// written, or if a pod on another node could not reach the new devices.
func TestASharedClaimIsNotMoved(t *testing.T) {
	network := schedtest.NodeDevices("network", "nic model=a")
	network.Spec.NodeName, network.Spec.AllNodes = nil, new(true)
	objects := append(someNodes("n", "m"), schedtest.DeviceClass("gpu"), network, schedtest.NodeDevices("n", "gpu model=b"))
	for name, others := range map[string]func(w *testCluster, p0, p1 *api.TaskInfo){
		"who else has it is on another node": func(w *testCluster, _, p1 *api.TaskInfo) { w.mustPlace(p1, "m") },
		"who else has it is bound": func(w *testCluster, p0, p1 *api.TaskInfo) {
			w.mustPlace(p1, "n")
			w.mustPreBind(p0)
			w.plugin.bound(w.t.Context(), p0, "n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			p0, p1, onlyA, onlyB := member("p0", "shared"), member("p1", "shared"), member("only-a", "made t"), member("only-b", "made t")
			claims := []runtime.Object{schedtest.DeviceClaim("shared", one()), made(onlyA, "t", one(modelA)), made(onlyB, "t", one(modelB))}
			run(t, slices.Concat(objects, claims), func(w *testCluster) {
				w.mustPlace(onlyB, "n")
				w.mustPlace(p0, "n")
				w.take(onlyB)
				others(w, p0, p1)
				if got, want := w.fits(onlyA, "n"), fmt.Sprintf(noneFree, "only-a-t"); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
				if diff := cmp.Diff([]string{"nic"}, w.devicesOf("shared")); diff != "" {
					t.Errorf("devices (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestAnAllocatedClaimThatMembersShare checks that further pods with an allocated claim fit only on nodes that reach
// its devices.
func TestAnAllocatedClaimThatMembersShare(t *testing.T) {
	claim := schedtest.DeviceClaim("shared", one())
	claim.Status.Allocation = allocationOf("n", "gpu-0")
	claim.Status.Allocation.NodeSelector = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"n"}}}}}}
	run(t, append(gpus("n", "m"), claim), func(w *testCluster) {
		p0, p1 := member("p0", "shared"), member("p1", "shared")
		w.mustPlace(p0, "n")
		if w.fits(p1, "m") == "" {
			t.Error("the task fits on a node that does not reach the claim's devices")
		}
		w.mustPlace(p1, "n")
	})
}

// TestAClaimThatIsMovedIsReachedFromWhereItsDevicesAre checks that after an exchange of its devices, a claim is reached
// from nodes of the new devices only.
func TestAClaimThatIsMovedIsReachedFromWhereItsDevicesAre(t *testing.T) {
	network := schedtest.NodeDevices("network", "nic model=a")
	network.Spec.NodeName, network.Spec.AllNodes = nil, new(true)
	p0, p1, onlyA, onlyB := member("p0", "shared"), member("p1", "shared"), member("only-a", "made t"), member("only-b", "made t")
	objects := append(someNodes("n", "m"), schedtest.DeviceClass("gpu"), network, schedtest.NodeDevices("n", "gpu model=b"),
		schedtest.DeviceClaim("shared", one()), made(onlyA, "t", one(modelA)), made(onlyB, "t", one(modelB)))
	run(t, objects, func(w *testCluster) {
		w.mustPlace(onlyB, "n")
		w.mustPlace(p0, "n")
		w.take(onlyB)
		if got := w.fits(p1, "m"); got != "" {
			t.Fatal(got)
		}
		w.mustPlace(onlyA, "n")
		if got, want := w.fits(p1, "m"), `claim "shared" (request "r", class "gpu"): node(s) cannot access its devices`; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestAClaimThatMembersShare checks that a claim is allocated once for all members that share it, and that these
// members are placed only on nodes that reach its devices.
func TestAClaimThatMembersShare(t *testing.T) {
	run(t, append(gpus("n", "m"), schedtest.DeviceClaim("shared", one())), func(w *testCluster) {
		p0, p1, p2 := member("p0", "shared"), member("p1", "shared"), member("p2", "shared")
		w.mustPlace(p0, "n")
		if got, want := w.fits(p1, "m"), `claim "shared" (request "r", class "gpu"): node(s) cannot access its devices`; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		w.mustPlace(p1, "n")
		w.mustPlace(p2, "n")
		w.take(p0)
		if got := w.fits(p0, "m"); got == "" {
			t.Error("the task fits on another node although other pods still hold the claim")
		}
		w.mustPreBind(p1)
		w.mustPreBind(p2)
		if diff := cmp.Diff([]string{"p1", "p2"}, w.users("shared")); diff != "" {
			t.Errorf("reserved for (-want +got):\n%s", diff)
		}
		w.rollBack(p1)
		if diff := cmp.Diff([]string{"p2"}, w.users("shared")); diff != "" || w.claim("shared").Status.Allocation == nil {
			t.Errorf("users after the rollback of one member (-want +got):\n%s", diff)
		}
		w.rollBack(p2)
		w.untouched("shared")
		w.nothingAssumed()
		w.mustPlace(p0, "m")
	})
}

// TestAMemberReleasedBeforeTheOthersWrite: the rollback of the member that wrote the allocation withdraws it, because
// the other members may never write. If they do, they write the allocation again.
func TestAMemberReleasedBeforeTheOthersWrite(t *testing.T) {
	for name, writes := range map[string]bool{"who write then": true, "who never do": false} {
		t.Run(name, func(t *testing.T) {
			run(t, append(gpus("n"), schedtest.DeviceClaim("shared", one())), func(w *testCluster) {
				p0, p1 := member("p0", "shared"), member("p1", "shared")
				w.mustPlace(p0, "n")
				w.mustPlace(p1, "n")
				w.mustPreBind(p0)
				w.rollBack(p0)
				w.untouched("shared")
				if writes {
					w.mustPreBind(p1)
					if diff := cmp.Diff([]string{"p1"}, w.users("shared")); diff != "" {
						t.Errorf("reserved for (-want +got):\n%s", diff)
					}
				}
				w.rollBack(p1)
				w.untouched("shared")
				w.nothingAssumed()
			})
		})
	}
}

// TestMoreMembersThanMayShare checks the limit of pods per claim, which the API server enforces.
func TestMoreMembersThanMayShare(t *testing.T) {
	run(t, append(gpus("n"), schedtest.DeviceClaim("shared", one())), func(w *testCluster) {
		for i := range resourceapi.ResourceClaimReservedForMaxSize {
			w.mustPlace(member(fmt.Sprint("p", i), "shared"), "n")
		}
		last := member("last", "shared")
		if got, want := w.fits(last, "n"), `claim "shared" is used by 256 pods, which is the maximum`; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if w.place(last, "n") == nil {
			t.Error("Reserve succeeded, want an error")
		}
	})
}

// TestDevicesThatOthersTakeMeanwhile checks that a pod gets another device if, after the filter, the informer shows
// that another client has allocated the first one. A second placement of the same pod fails.
func TestDevicesThatOthersTakeMeanwhile(t *testing.T) {
	p := member("p", "made t")
	objects := append(gpus("n"), made(p, "t", one()), schedtest.DeviceClaim("other", one()))
	run(t, objects, func(w *testCluster) {
		if got := w.fits(p, "n"); got != "" {
			t.Fatal(got)
		}
		w.change("other", func(c *resourceapi.ResourceClaim) { c.Status.Allocation = allocationOf("n", "gpu-0") })
		if err := w.place(p, "n"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"gpu-1"}, w.devicesOf("p-t")); diff != "" {
			t.Errorf("devices (-want +got):\n%s", diff)
		}
		if err := w.place(p, "n"); err == nil {
			t.Error("a second Reserve of the same task succeeded")
		}
	})
}

func allocationOf(pool string, devices ...string) *resourceapi.AllocationResult {
	allocation := &resourceapi.AllocationResult{}
	for _, device := range devices {
		allocation.Devices.Results = append(allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: "r", Driver: schedtest.DeviceDriver, Pool: pool, Device: device,
		})
	}
	return allocation
}

// TestAClaimIsHeldWithItsNodes: while a pod holds an allocated claim, other pods with the claim fit only on nodes that
// reach its devices, even if the informer no longer shows the allocation.
func TestAClaimIsHeldWithItsNodes(t *testing.T) {
	claim := schedtest.DeviceClaim("c", one())
	claim.Status.Allocation = allocationOf("n", "gpu-0")
	claim.Status.Allocation.NodeSelector = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"n"}}},
	}}}
	run(t, append(gpus("n", "m"), claim), func(w *testCluster) {
		w.mustPlace(member("p", "c"), "n")
		w.change("c", func(c *resourceapi.ResourceClaim) { c.Status.Allocation = nil })
		w.open()
		for node, want := range map[string]string{"n": "", "m": "node(s) cannot access its devices"} {
			if got := w.fits(member("q", "c"), node); (got == "") != (want == "") || !strings.Contains(got, want) {
				t.Errorf("on %s: %q, want %q", node, got, want)
			}
		}
	})
}
