// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// alone runs the test with a placed member that has its own claim, on a node with two devices.
func alone(t *testing.T, act func(w *testCluster)) {
	t.Helper()
	p := member("p", "made t")
	run(t, append(gpus("n"), made(p, "t", one())), func(w *testCluster) {
		w.mustPlace(p, "n")
		act(w)
	})
}

// TestPreBindWritesTheAllocation checks that the step writes the allocation, the user, the finalizer and the
// scheduler's annotation, in two writes.
func TestPreBindWritesTheAllocation(t *testing.T) {
	alone(t, func(w *testCluster) {
		w.kube.ClearActions()
		w.mustPreBind(w.tasks["p"])
		if diff := cmp.Diff([]string{"update ", "update status"}, w.calls()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		claim := w.claim("p-t")
		if diff := cmp.Diff([]string{"gpu-0"}, w.devicesOf("p-t")); diff != "" || claim.Status.Allocation == nil {
			t.Errorf("devices (-want +got):\n%s", diff)
		}
		want := []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: w.tasks["p"].Pod.UID}}
		if diff := cmp.Diff(want, claim.Status.ReservedFor); diff != "" {
			t.Errorf("users (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{resourceapi.Finalizer}, claim.Finalizers); diff != "" {
			t.Errorf("finalizers (-want +got):\n%s", diff)
		}
		if got, want := claim.Annotations[SchedulerAnnotation], w.tasks["p"].Pod.Spec.SchedulerName; got != want {
			t.Errorf("the scheduler's annotation is %q, want %q", got, want)
		}
		w.kube.ClearActions()
		w.mustPreBind(w.tasks["p"])
		if diff := cmp.Diff([]string{}, w.calls()); diff != "" {
			t.Errorf("calls of a step that is repeated (-want +got):\n%s", diff)
		}
		w.plugin.bound(w.t.Context(), w.tasks["p"], "n")
		w.nothingAssumed()
	})
}

// TestDevicesOfABoundPodAreNotFree checks that the devices are not free, even before the informer shows the written
// allocation.
func TestDevicesOfABoundPodAreNotFree(t *testing.T) {
	p, q := member("p", "made t"), member("q", "made t")
	run(t, append(gpus("n"), made(p, "t", schedtest.DeviceRequest("r", "gpu", 2)), made(q, "t", one())), func(w *testCluster) {
		w.mustPlace(p, "n")
		deliver := w.lag()
		w.mustPreBind(p)
		w.plugin.bound(w.t.Context(), p, "n")
		if got := w.fits(q, "n"); got == "" {
			t.Error("devices are allocated twice before the informer shows the allocation")
		}
		deliver()
		w.nothingAssumed()
		if got := w.fits(q, "n"); got == "" {
			t.Error("devices are allocated twice after the informer shows the allocation")
		}
		w.change("p-t", func(c *resourceapi.ResourceClaim) { c.Status = resourceapi.ResourceClaimStatus{} })
		if got := w.fits(q, "n"); got != "" {
			t.Errorf("released devices are not free: %s", got)
		}
	})
}

// TestRollback checks that all writes are withdrawn in reverse order, even if a write failed or its answer was lost.
func TestRollback(t *testing.T) {
	fails := func(subresource string, taken bool) func(w *testCluster) {
		return func(w *testCluster) {
			once := true
			w.kube.PrependReactor("update", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if !once || action.GetSubresource() != subresource {
					return false, nil, nil
				}
				if once = false; taken {
					_, _, _ = w.update(action)
				}
				return true, nil, apierrors.NewTimeoutError("no answer", 1)
			})
		}
	}
	cases := map[string]struct {
		before  func(w *testCluster)
		refused bool
		calls   []string
	}{
		"all was written":                         {before: func(*testCluster) {}, calls: []string{"get ", "update status", "update "}},
		"the first write was refused":             {before: fails("", false), refused: true, calls: []string{"get "}},
		"the answer to the first write was lost":  {before: fails("", true), refused: true, calls: []string{"get ", "update "}},
		"the second write was refused":            {before: fails("status", false), refused: true, calls: []string{"get ", "update "}},
		"the answer to the second write was lost": {before: fails("status", true), refused: true, calls: []string{"get ", "update status", "update "}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			alone(t, func(w *testCluster) {
				tc.before(w)
				if err := w.preBind(w.tasks["p"])(); (err != nil) != tc.refused {
					t.Fatalf("pre-bind: %v", err)
				}
				w.kube.ClearActions()
				w.rollBack(w.tasks["p"])
				if diff := cmp.Diff(tc.calls, w.calls()); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				w.untouched("p-t")
				w.nothingAssumed()
				w.mustPlace(w.tasks["p"], "n")
			})
		})
	}
}

// TestRollbackUnbegun checks that a rollback of a step that wrote nothing writes nothing.
func TestRollbackUnbegun(t *testing.T) {
	alone(t, func(w *testCluster) {
		w.kube.ClearActions()
		w.rollBack(w.tasks["p"])
		if diff := cmp.Diff([]string{}, w.calls()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		w.nothingAssumed()
		w.rollBack(w.tasks["p"]) // a second rollback
	})
}

// TestRollbackThatFailsIsRepeated checks that no other pod gets the devices until the rollback has succeeded.
func TestRollbackThatFailsIsRepeated(t *testing.T) {
	p, q := member("p", "made t"), member("q", "made t")
	run(t, append(gpus("n"), made(p, "t", schedtest.DeviceRequest("r", "gpu", 2)), made(q, "t", one())), func(w *testCluster) {
		w.mustPlace(p, "n")
		w.mustPreBind(p)
		down := true
		w.kube.PrependReactor("*", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
			return down, nil, errors.New("away")
		})
		if err := w.plugin.Rollback(w.t.Context(), p, "n"); err == nil || err.Error() != `rolling back claim "p-t": away` {
			t.Errorf("got %v", err)
		}
		if w.fits(q, "n") == "" || w.fits(p, "n") == "" {
			t.Error("devices are free although their rollback failed")
		}
		down = false
		w.rollBack(p)
		w.untouched("p-t")
		w.mustPlace(q, "n")
	})
}

// TestRollbackLeavesWritesOfOthers checks that a rollback does not withdraw what other clients wrote meanwhile.
func TestRollbackLeavesWritesOfOthers(t *testing.T) {
	user := func(name string) resourceapi.ResourceClaimConsumerReference {
		return resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: name, UID: "another"}
	}
	cases := map[string]struct {
		meanwhile func(c *resourceapi.ResourceClaim)
		users     []string
		devices   []string
	}{
		"another uses it":      {func(c *resourceapi.ResourceClaim) { c.Status.ReservedFor = append(c.Status.ReservedFor, user("q")) }, []string{"q"}, []string{"gpu-0"}},
		"another allocated it": {func(c *resourceapi.ResourceClaim) { c.Status.Allocation = allocationOf("n", "gpu-1") }, nil, []string{"gpu-1"}},
		"another has its name": {func(c *resourceapi.ResourceClaim) { c.UID, c.Status.ReservedFor = "another", nil }, nil, []string{"gpu-0"}},
		"another marked it": {func(c *resourceapi.ResourceClaim) {
			c.Status.Allocation, c.Annotations = allocationOf("n", "gpu-1"), map[string]string{SchedulerAnnotation: "other"}
		}, nil, []string{"gpu-1"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			alone(t, func(w *testCluster) {
				w.mustPreBind(w.tasks["p"])
				w.change("p-t", tc.meanwhile)
				w.rollBack(w.tasks["p"])
				if diff := cmp.Diff(tc.users, w.users("p-t")); diff != "" {
					t.Errorf("users (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tc.devices, w.devicesOf("p-t")); diff != "" {
					t.Errorf("devices (-want +got):\n%s", diff)
				}
				if len(w.claim("p-t").Finalizers) == 0 {
					t.Error("the claim no longer has its finalizer")
				}
				w.nothingAssumed()
			})
		})
	}
}

// TestAClaimThatWasAllocatedBefore checks that an allocated claim is only reserved for the pod, and that the rollback
// does not deallocate it.
func TestAClaimThatWasAllocatedBefore(t *testing.T) {
	claim := schedtest.DeviceClaim("c", one())
	claim.Status.Allocation, claim.Finalizers = allocationOf("n", "gpu-0"), []string{resourceapi.Finalizer}
	run(t, append(gpus("n"), claim), func(w *testCluster) {
		p := member("p", "c")
		w.mustPlace(p, "n")
		w.kube.ClearActions()
		w.mustPreBind(p)
		if diff := cmp.Diff([]string{"update status"}, w.calls()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		w.rollBack(p)
		if got := w.claim("c"); len(got.Status.ReservedFor) > 0 || got.Status.Allocation == nil || len(got.Finalizers) == 0 {
			t.Errorf("left with %v", got)
		}
		w.nothingAssumed()
	})
}

// TestAConflictIsReadAndWrittenAgain checks that the step retries after a conflict, because other clients write claims,
// too.
func TestAConflictIsReadAndWrittenAgain(t *testing.T) {
	alone(t, func(w *testCluster) {
		w.change("p-t", func(c *resourceapi.ResourceClaim) { c.Labels = map[string]string{"of": "another"} })
		conflicts := 1
		w.kube.PrependReactor("update", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if action.GetSubresource() != "status" || conflicts == 0 {
				return false, nil, nil
			}
			conflicts--
			return true, nil, apierrors.NewConflict(schema.GroupResource{}, "p-t", errors.New("another was faster"))
		})
		w.mustPreBind(w.tasks["p"])
		claim := w.claim("p-t")
		if diff := cmp.Diff([]string{"p"}, w.users("p-t")); diff != "" || claim.Labels["of"] != "another" || len(claim.Finalizers) != 1 {
			t.Errorf("got %v", claim)
		}
	})
}

// calls returns the verbs and subresources of API calls about claims since its last call.
func (w *testCluster) calls() []string {
	list := []string{}
	for _, action := range w.kube.Actions() {
		if action.GetResource().Resource == "resourceclaims" {
			list = append(list, action.GetVerb()+" "+action.GetSubresource())
		}
	}
	w.kube.ClearActions()
	return list
}
