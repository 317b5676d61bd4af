// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"cmp"
	"context"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
)

// SchedulerAnnotation marks claims that this plugin has allocated with the scheduler's name. It is written with the
// finalizer that protects the claim, because the status cannot hold it.
const SchedulerAnnotation = "dynamicresources.volcano-prebind.io/scheduler"

// withdraw reverts the writes to the claim for the pod.
func (d *devices) withdraw(ctx context.Context, held *assumedClaim, pod types.UID) error {
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
	written, err := d.writeWithdrawal(ctx, w)
	if err != nil {
		return err
	}
	held.last = written
	held.tried = others && (held.tried || written != nil && held.marked(written)) // other pods withdraw the remaining writes
	return nil
}

// frees reports whether this scheduler must deallocate the claim, which no pod uses: it was allocated for a holder or,
// as its mark shows, for an earlier pod. The controller of claims deallocates a claim only if it has removed the last
// user itself.
func (h *assumedClaim) frees(claim *resourceapi.ResourceClaim) bool {
	planned := cmp.Or(h.allocation, h.claim.Status.Allocation)
	return (h.tried || h.marked(claim)) && (claim.Status.Allocation == nil || sameDevices(planned, claim.Status.Allocation))
}

func (h *assumedClaim) marked(claim *resourceapi.ResourceClaim) bool {
	mark, marked := claim.Annotations[SchedulerAnnotation]
	return marked && mark == h.scheduler
}

// shares returns whether the claim may be reserved for the pod, and whether other pods, whose steps have begun, rely on
// the written state. A pod in a trial does not, because its step would write again.
func (d *devices) shares(held *assumedClaim, pod types.UID) (reserved, others bool) {
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
	// of is the version of the claim to withdraw; empty for any.
	of string
}

// writeWithdrawal writes the withdrawal, in the reverse order of the original writes, each conditional on the version that was
// read. A deleted claim needs no write. It returns the resulting claim.
func (d *devices) writeWithdrawal(ctx context.Context, w withdrawal) (written *resourceapi.ResourceClaim, err error) {
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
