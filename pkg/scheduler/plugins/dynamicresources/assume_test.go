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

// TestTwoMembersDoNotCountOnOneDevice: a device reserved for one member is not free for the next, until it is released.
func TestTwoMembersDoNotCountOnOneDevice(t *testing.T) {
	var tasks = []string{"p0", "p1", "p2"}
	objects := gpus("n", "m")
	for _, name := range tasks {
		objects = append(objects, made(member(name, "made t"), "t", one()))
	}
	run(t, objects, func(w *world) {
		p0, p1, p2 := member("p0", "made t"), member("p1", "made t"), member("p2", "made t")
		w.mustPlace(p0, "n")
		w.mustPlace(p1, "n")
		if got, want := w.fits(p2, "n"), fmt.Sprintf(noneFree, "p2-t"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := w.fits(p2, "m"); got != "" {
			t.Errorf("it does not fit on the other node: %s", got)
		}
		w.take(p0)
		w.mustPlace(p2, "n")
		w.take(p1)
		w.take(p2)
		w.nothingAssumed()
	})
}

// TestTheVerdictOfAPlacedTaskIsOfTheNext: it holds for all tasks with equal claims.
func TestTheVerdictOfAPlacedTaskIsOfTheNext(t *testing.T) {
	p0, p1 := member("p0", "made t"), member("p1", "made t")
	run(t, append(gpus("n"), made(p0, "t", one()), made(p1, "t", one())), func(w *world) {
		w.mustPlace(p0, "n")
		if got := w.fits(p0, "n"); got != "" {
			t.Errorf("there is a device for the next: %s", got)
		}
		w.mustPlace(p1, "n")
		if got := w.fits(p0, "n"); got == "" {
			t.Error("there is no device for the next")
		}
	})
}

// TestMembersMakeRoomForEachOther: of two that both could have a device, none has what only the other can use.
func TestMembersMakeRoomForEachOther(t *testing.T) {
	easy, onlyA := member("any", "made t"), member("only-a", "made t")
	run(t, append(gpus("n"), made(easy, "t", one()), made(onlyA, "t", one(modelA))), func(w *world) {
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
			t.Errorf("what is left when the other is taken back (-want +got):\n%s", diff)
		}
		w.rollBack(easy)
		w.untouched("any-t", "only-a-t")
		w.nothingAssumed()
	})
}

// TestAllocationsUnderWayAreNotMoved: nor what another session has placed.
func TestAllocationsUnderWayAreNotMoved(t *testing.T) {
	for name, after := range map[string]func(w *world, placed string){
		"begun":                  func(w *world, placed string) { w.mustPreBind(w.tasks[placed]) },
		"of a session before":    func(w *world, _ string) { w.open() },
		"that is being released": func(w *world, placed string) { w.plugin.devices.leave(w.tasks[placed].Pod.UID) },
	} {
		t.Run(name, func(t *testing.T) {
			easy, onlyA := member("any", "made t"), member("only-a", "made t")
			run(t, append(gpus("n"), made(easy, "t", one()), made(onlyA, "t", one(modelA))), func(w *world) {
				w.mustPlace(easy, "n")
				after(w, "any")
				if got, want := w.fits(onlyA, "n"), fmt.Sprintf(noneFree, "only-a-t"); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
				if err := w.place(onlyA, "n"); err == nil {
					t.Error("reserving it succeeds")
				}
			})
		})
	}
}

// TestASharedClaimIsNotMoved: neither what is written of it, nor out of the reach of a pod on another node.
func TestASharedClaimIsNotMoved(t *testing.T) {
	network := schedtest.NodeDevices("network", "nic model=a")
	network.Spec.NodeName, network.Spec.AllNodes = nil, new(true)
	objects := append(someNodes("n", "m"), schedtest.DeviceClass("gpu"), network, schedtest.NodeDevices("n", "gpu model=b"))
	for name, others := range map[string]func(w *world, p0, p1 *api.TaskInfo){
		"who else has it is on another node": func(w *world, _, p1 *api.TaskInfo) { w.mustPlace(p1, "m") },
		"who else has it is bound": func(w *world, p0, p1 *api.TaskInfo) {
			w.mustPlace(p1, "n")
			w.mustPreBind(p0)
			w.plugin.bound(w.t.Context(), p0, "n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			p0, p1, onlyA, onlyB := member("p0", "shared"), member("p1", "shared"), member("only-a", "made t"), member("only-b", "made t")
			claims := []runtime.Object{schedtest.DeviceClaim("shared", one()), made(onlyA, "t", one(modelA)), made(onlyB, "t", one(modelB))}
			run(t, slices.Concat(objects, claims), func(w *world) {
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

// TestAnAllocatedClaimThatMembersShare: who comes next is kept to the nodes that reach it, too.
func TestAnAllocatedClaimThatMembersShare(t *testing.T) {
	claim := schedtest.DeviceClaim("shared", one())
	claim.Status.Allocation = allocationOf("n", "gpu-0")
	claim.Status.Allocation.NodeSelector = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"n"}}}}}}
	run(t, append(gpus("n", "m"), claim), func(w *world) {
		p0, p1 := member("p0", "shared"), member("p1", "shared")
		w.mustPlace(p0, "n")
		if w.fits(p1, "m") == "" {
			t.Error("it fits where the claim's devices are not reached")
		}
		w.mustPlace(p1, "n")
	})
}

// TestAClaimThatIsMovedIsReachedFromWhereItsDevicesAre: no longer from where the former ones were.
func TestAClaimThatIsMovedIsReachedFromWhereItsDevicesAre(t *testing.T) {
	network := schedtest.NodeDevices("network", "nic model=a")
	network.Spec.NodeName, network.Spec.AllNodes = nil, new(true)
	p0, p1, onlyA, onlyB := member("p0", "shared"), member("p1", "shared"), member("only-a", "made t"), member("only-b", "made t")
	objects := append(someNodes("n", "m"), schedtest.DeviceClass("gpu"), network, schedtest.NodeDevices("n", "gpu model=b"),
		schedtest.DeviceClaim("shared", one()), made(onlyA, "t", one(modelA)), made(onlyB, "t", one(modelB)))
	run(t, objects, func(w *world) {
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

// TestAClaimThatMembersShare: it is allocated once, and they agree on where.
func TestAClaimThatMembersShare(t *testing.T) {
	run(t, append(gpus("n", "m"), schedtest.DeviceClaim("shared", one())), func(w *world) {
		p0, p1, p2 := member("p0", "shared"), member("p1", "shared"), member("p2", "shared")
		w.mustPlace(p0, "n")
		if got, want := w.fits(p1, "m"), `claim "shared" (request "r", class "gpu"): node(s) cannot access its devices`; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		w.mustPlace(p1, "n")
		w.mustPlace(p2, "n")
		w.take(p0)
		if got := w.fits(p0, "m"); got == "" {
			t.Error("the others hold it still, and it fits elsewhere")
		}
		w.mustPreBind(p1)
		w.mustPreBind(p2)
		if diff := cmp.Diff([]string{"p1", "p2"}, w.users("shared")); diff != "" {
			t.Errorf("reserved for (-want +got):\n%s", diff)
		}
		w.rollBack(p1)
		if diff := cmp.Diff([]string{"p2"}, w.users("shared")); diff != "" || w.claim("shared").Status.Allocation == nil {
			t.Errorf("one member's rollback takes more than its reservation (-want +got):\n%s", diff)
		}
		w.rollBack(p2)
		w.untouched("shared")
		w.nothingAssumed()
		w.mustPlace(p0, "m")
	})
}

// Its allocation is released with it, because the others may never write. If they do, they allocate again.
func TestAMemberReleasedBeforeTheOthersWrite(t *testing.T) {
	for name, writes := range map[string]bool{"who write then": true, "who never do": false} {
		t.Run(name, func(t *testing.T) {
			run(t, append(gpus("n"), schedtest.DeviceClaim("shared", one())), func(w *world) {
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

// TestMoreMembersThanMayShare: the API server would take no more.
func TestMoreMembersThanMayShare(t *testing.T) {
	run(t, append(gpus("n"), schedtest.DeviceClaim("shared", one())), func(w *world) {
		for i := range resourceapi.ResourceClaimReservedForMaxSize {
			w.mustPlace(member(fmt.Sprint("p", i), "shared"), "n")
		}
		last := member("last", "shared")
		if got, want := w.fits(last, "n"), `claim "shared" is used by 256 pods, which is the maximum`; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if w.place(last, "n") == nil {
			t.Error("reserving it succeeds")
		}
	})
}

// TestDevicesThatOthersTakeMeanwhile: the informer reports them between the verdict and the placement.
func TestDevicesThatOthersTakeMeanwhile(t *testing.T) {
	p := member("p", "made t")
	objects := append(gpus("n"), made(p, "t", one()), schedtest.DeviceClaim("other", one()))
	run(t, objects, func(w *world) {
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
			t.Error("what is reserved is reserved again")
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

// TestAClaimIsHeldWithItsNodes: a pod that holds an allocated claim has others come only to nodes that reach its devices, also when the claim is no
// longer shown as allocated.
func TestAClaimIsHeldWithItsNodes(t *testing.T) {
	claim := schedtest.DeviceClaim("c", one())
	claim.Status.Allocation = allocationOf("n", "gpu-0")
	claim.Status.Allocation.NodeSelector = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"n"}}},
	}}}
	run(t, append(gpus("n", "m"), claim), func(w *world) {
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
