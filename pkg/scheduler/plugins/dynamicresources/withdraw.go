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

// SchedulerAnnotation is the annotation of claims that this plugin has allocated. Its value is the scheduler's name. The plugin
// writes it together with the finalizer of an allocated claim, because a write of the claim's status cannot change annotations.
const SchedulerAnnotation = "dynamicresources.volcano-prebind.io/scheduler"

// withdraw undoes the writes of the claim that the plugin may have sent for the pod. It deallocates the claim unless another pod
// relies on the writes: a pod whose pre-bind step has begun. A step that has not begun sends the writes again.
func (d *devices) withdraw(ctx context.Context, held *assumedClaim, pod types.UID) error {
	held.mu.Lock()
	defer held.mu.Unlock()
	begun, others := false, false
	d.mu.Lock()
	for uid, one := range held.holders {
		begun = begun || uid == pod && one.begun
		others = others || uid != pod && one.begun && !one.leaving
	}
	d.mu.Unlock()
	if !begun {
		return nil
	}
	delete(held.reserved, pod)
	err := d.writeWithdrawal(ctx, withdrawal{
		claim: held.claim, scheduler: held.scheduler,
		leaves: func(user resourceapi.ResourceClaimConsumerReference) bool { return user.UID == pod },
		frees:  func(claim *resourceapi.ResourceClaim) bool { return !others && held.frees(claim) },
	})
	held.tried = held.tried && (others || err != nil)
	return err
}

// frees reports whether this scheduler must deallocate the claim once no pod uses it. It must if it allocated the claim for a pod
// that holds the claim, or for an earlier pod, as SchedulerAnnotation shows. Kubernetes' claim controller deallocates a claim only
// if the controller itself removed the last user.
func (h *assumedClaim) frees(claim *resourceapi.ResourceClaim) bool {
	planned := cmp.Or(h.allocation, h.claim.Status.Allocation)
	return (h.tried || h.marked(claim)) && (claim.Status.Allocation == nil || sameDevices(planned, claim.Status.Allocation))
}

func (h *assumedClaim) marked(claim *resourceapi.ResourceClaim) bool {
	mark, marked := claim.Annotations[SchedulerAnnotation]
	return marked && mark == h.scheduler
}

// withdrawal describes how writes for a claim are undone. Reservations for the pods that the function leaves selects are removed.
// If no other pod uses the claim and the function frees returns true, the claim's allocation, finalizer and SchedulerAnnotation
// are removed, too.
type withdrawal struct {
	claim     *resourceapi.ResourceClaim
	scheduler string
	leaves    func(resourceapi.ResourceClaimConsumerReference) bool
	frees     func(*resourceapi.ResourceClaim) bool
	// unlessChanged reports whether nothing is undone if the claim has another resource version than the field claim.
	unlessChanged bool
}

// writeWithdrawal sends the writes of the withdrawal, in the reverse order of the original writes. The API server rejects a write
// if the claim has changed since it was read. It does nothing if the claim was deleted or recreated.
func (d *devices) writeWithdrawal(ctx context.Context, w withdrawal) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	claims := d.kube.ResourceV1().ResourceClaims(w.claim.Namespace)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		claim, err := claims.Get(ctx, w.claim.Name, metav1.GetOptions{})
		if err != nil || claim.UID != w.claim.UID || w.unlessChanged && claim.ResourceVersion != w.claim.ResourceVersion {
			return err
		}
		defer func() { d.wrote(claim) }()
		changed := claim.DeepCopy()
		changed.Status.ReservedFor = slices.DeleteFunc(changed.Status.ReservedFor, w.leaves)
		frees := len(changed.Status.ReservedFor) == 0 && w.frees(changed)
		deallocates := frees && changed.Status.Allocation != nil
		if deallocates {
			changed.Status.Allocation, changed.Status.Devices = nil, nil
		}
		if deallocates || len(changed.Status.ReservedFor) != len(claim.Status.ReservedFor) {
			if changed, err = claims.UpdateStatus(ctx, changed, metav1.UpdateOptions{}); err != nil {
				return err
			}
			claim = changed
		}
		if !frees || claim.Annotations[SchedulerAnnotation] != w.scheduler {
			return nil
		}
		changed = claim.DeepCopy()
		delete(changed.Annotations, SchedulerAnnotation)
		changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(name string) bool { return name == resourceapi.Finalizer })
		if changed, err = claims.Update(ctx, changed, metav1.UpdateOptions{}); err == nil {
			claim = changed
		}
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
