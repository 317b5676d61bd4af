// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"cmp"
	"context"
	"os"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
)

// SchedulerAnnotation is on claims that this plugin has allocated; it names the scheduler. It is written with the finalizer that
// protects them, for a status cannot bear it.
const SchedulerAnnotation = "dynamicresources.volcano-prebind.io/scheduler"

// schedulerOf is what a scheduler calls itself that places the pod: the name that the pod asks for, and, where several share that
// name, its own. Upstream reads these variables, too.
func schedulerOf(pod *v1.Pod) string { return withOwnName(pod.Spec.SchedulerName) }

func withOwnName(scheduler string) string {
	if shareName() {
		return scheduler + "/" + os.Getenv("SCHEDULER_POD_NAME")
	}
	return scheduler
}

// shareName reports whether several schedulers share a name.
func shareName() bool { return os.Getenv("MULTI_SCHEDULER_ENABLE") == "true" }

// withdraw takes back what was written of the claim for the pod.
func (d *devices) withdraw(ctx context.Context, held *heldClaim, pod types.UID) error {
	held.mu.Lock()
	defer held.mu.Unlock()
	reserved, others := d.shares(held, pod)
	if !reserved && !held.tried {
		return nil
	}
	w := withdrawal{
		namespace: held.claim.Namespace, name: held.claim.Name, uid: held.claim.UID, scheduler: held.scheduler,
		leaves: func(user resourceapi.ResourceClaimConsumerReference) bool { return user.UID == pod },
		frees:  func(claim *resourceapi.ResourceClaim) bool { return !others && held.frees(claim) },
	}
	written, err := d.take(ctx, w)
	if err != nil {
		return err
	}
	held.last = written
	held.tried = others && (held.tried || written != nil && held.marked(written)) // the remaining writes are for other pods to withdraw
	return nil
}

// frees reports whether the claim, which no pod uses, is this scheduler's to deallocate: it was allocated for a holder, or, as its mark shows,
// for a pod before. The controller of claims deallocates only a claim whose last user it removes itself.
func (h *heldClaim) frees(claim *resourceapi.ResourceClaim) bool {
	planned := cmp.Or(h.allocation, h.claim.Status.Allocation)
	return (h.tried || h.marked(claim)) && (claim.Status.Allocation == nil || sameDevices(planned, claim.Status.Allocation))
}

func (h *heldClaim) marked(claim *resourceapi.ResourceClaim) bool {
	mark, marked := claim.Annotations[SchedulerAnnotation]
	return marked && mark == h.scheduler
}

// shares returns whether the claim may be reserved for the pod, and whether other pods rely on the written state: pods whose steps
// have begun. A pod in a trial does not, since its step would write again.
func (d *devices) shares(held *heldClaim, pod types.UID) (reserved, others bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for uid, one := range held.holders {
		others = others || uid != pod && one.begun && !one.leaving
	}
	own := held.holders[pod]
	return own != nil && own.tried, others
}

// withdrawal is the set of changes that withdraw a claim: remove reservations for leaving pods and, if no other pod uses the claim
// and it may be freed, its allocation and its finalizer.
type withdrawal struct {
	namespace, name string
	uid             types.UID
	scheduler       string
	leaves          func(resourceapi.ResourceClaimConsumerReference) bool
	frees           func(*resourceapi.ResourceClaim) bool
	// of is the version of the claim that is withdrawn; empty for any.
	of string
}

// take writes the withdrawal, in the reverse order of the original writes, each conditional on the version that was read. A deleted
// claim needs no write. It returns the resulting claim.
func (d *devices) take(ctx context.Context, w withdrawal) (written *resourceapi.ResourceClaim, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	claims := d.kube.ResourceV1().ResourceClaims(w.namespace)
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		claim, err := claims.Get(ctx, w.name, metav1.GetOptions{})
		if err != nil || claim.UID != w.uid || w.of != "" && w.of != claim.ResourceVersion {
			written = nil
			return err
		}
		written = claim
		users := len(claim.Status.ReservedFor)
		claim.Status.ReservedFor = slices.DeleteFunc(claim.Status.ReservedFor, w.leaves)
		frees := len(claim.Status.ReservedFor) == 0 && w.frees(claim)
		if frees && claim.Status.Allocation != nil {
			claim.Status.Allocation, claim.Status.Devices, users = nil, nil, -1
		}
		if users != len(claim.Status.ReservedFor) {
			if claim, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
				return err
			}
			written = claim
		}
		if !frees || claim.Annotations[SchedulerAnnotation] != w.scheduler {
			return nil
		}
		claim = claim.DeepCopy()
		delete(claim.Annotations, SchedulerAnnotation)
		claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(name string) bool { return name == resourceapi.Finalizer })
		if claim, err = claims.Update(ctx, claim, metav1.UpdateOptions{}); err == nil {
			written = claim
		}
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if written != nil {
		d.wrote(written)
	}
	return written, err
}
