// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// ended removes a pod that ended from the claim's users, as the controller of claims does. The controller deallocates
// the claim only if no other pod uses it.
func (w *testCluster) ended(claim, pod string) {
	w.change(claim, func(c *resourceapi.ResourceClaim) {
		c.Status.ReservedFor = slices.DeleteFunc(c.Status.ReservedFor, func(user resourceapi.ResourceClaimConsumerReference) bool { return user.Name == pod })
	})
}

// TestTheLastUserIsRolledBack: the pod for which the claim was allocated has ended, so only the rollback can deallocate
// the claim.
func TestTheLastUserIsRolledBack(t *testing.T) {
	for name, fails := range map[string]bool{"at once": false, "with a write that fails first": true} {
		t.Run(name, func(t *testing.T) {
			run(t, append(gpus("n"), schedtest.DeviceClaim("shared", one())), func(w *testCluster) {
				bound, last := member("bound", "shared"), member("last", "shared")
				w.mustPlace(bound, "n")
				w.mustPreBind(bound)
				w.plugin.bound(w.t.Context(), bound, "n")
				w.open()
				w.mustPlace(last, "n")
				w.mustPreBind(last)
				w.ended("shared", "bound")
				if fails {
					failed := false
					w.kube.PrependReactor("update", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
						if action.GetSubresource() != "" || failed {
							return false, nil, nil
						}
						failed = true
						return true, nil, apierrors.NewInternalError(errChanged)
					})
					if w.plugin.Rollback(w.t.Context(), last, "n") == nil {
						t.Fatal("a rollback whose write fails succeeds")
					}
				}
				w.rollBack(last)
				w.untouched("shared")
				w.nothingAssumed()
			})
		})
	}
}

// TestTheLastUserIsRolledBackBeforeAnotherWrites: the last user of a claim is rolled back while the step of another
// member has begun, but has not written yet. Only the rollback of that other member deallocates the claim.
func TestTheLastUserIsRolledBackBeforeAnotherWrites(t *testing.T) {
	run(t, append(gpus("n"), schedtest.DeviceClaim("shared", one())), func(w *testCluster) {
		bound, last, other := member("bound", "shared"), member("last", "shared"), member("other", "shared")
		w.mustPlace(bound, "n")
		w.mustPreBind(bound)
		w.plugin.bound(w.t.Context(), bound, "n")
		w.mustPlace(last, "n")
		w.mustPlace(other, "n")
		w.mustPreBind(last)
		w.ended("shared", "bound")
		w.plugin.devices.beginPreBind(other.Pod.UID, "n")
		w.rollBack(last)
		if w.claim("shared").Status.Allocation == nil {
			t.Error("the claim is deallocated while another step is about to reserve it")
		}
		w.rollBack(other)
		w.untouched("shared")
		w.nothingAssumed()
	})
}

// TestTwoRollbacksOfASharedClaimAtOnce: two members that share a claim are rolled back at the same time. The second
// rollback deallocates the claim, although the first member has not released the claim yet.
func TestTwoRollbacksOfASharedClaimAtOnce(t *testing.T) {
	run(t, append(gpus("n"), schedtest.DeviceClaim("shared", one())), func(w *testCluster) {
		first, second := member("first", "shared"), member("second", "shared")
		w.mustPlace(first, "n")
		w.mustPlace(second, "n")
		w.mustPreBind(first)
		w.mustPreBind(second)
		d := w.plugin.devices
		for _, held := range d.leave(first.Pod.UID).held {
			if err := d.withdraw(w.t.Context(), held, first.Pod.UID); err != nil {
				t.Fatal(err)
			}
		}
		w.rollBack(second)
		w.untouched("shared")
		d.drop(first.Pod.UID)
		w.nothingAssumed()
	})
}

// TestARollbackBesideAPodThatEnded: when the first member is rolled back, the claim is also reserved for a pod that
// ended. The rollback of the next member deallocates it.
func TestARollbackBesideAPodThatEnded(t *testing.T) {
	run(t, append(gpus("n"), schedtest.DeviceClaim("shared", one())), func(w *testCluster) {
		first, next := member("first", "shared"), member("next", "shared")
		w.mustPlace(first, "n")
		w.mustPlace(next, "n")
		w.mustPreBind(first)
		w.change("shared", func(c *resourceapi.ResourceClaim) {
			c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: "ended", UID: "ended"})
		})
		w.rollBack(first)
		if diff := cmp.Diff([]string{"ended"}, w.users("shared")); diff != "" || w.claim("shared").Status.Allocation == nil {
			t.Fatalf("users of the claim (-want +got):\n%s", diff)
		}
		w.mustPreBind(next)
		w.ended("shared", "ended")
		w.rollBack(next)
		w.untouched("shared")
		w.nothingAssumed()
	})
}

// TestTheLastUserOfAnothersAllocation checks that the rollback does not deallocate a claim that another scheduler
// allocated.
func TestTheLastUserOfAnothersAllocation(t *testing.T) {
	claim := schedtest.DeviceClaim("shared", one())
	claim.Finalizers = []string{resourceapi.Finalizer}
	claim.Status.Allocation = allocationOf("n", "gpu-0")
	for name, mark := range map[string]string{"without a mark": "", "with a mark of its own": "other"} {
		t.Run(name, func(t *testing.T) {
			claim := claim.DeepCopy()
			if mark != "" {
				claim.Annotations = map[string]string{SchedulerAnnotation: mark}
			}
			run(t, append(gpus("n"), claim), func(w *testCluster) {
				last := member("last", "shared")
				w.mustPlace(last, "n")
				w.mustPreBind(last)
				w.rollBack(last)
				if got := w.claim("shared"); got.Status.Allocation == nil || len(got.Finalizers) == 0 || len(got.Status.ReservedFor) > 0 {
					t.Errorf("found %v, want it allocated and unreserved", got)
				}
			})
		})
	}
}
