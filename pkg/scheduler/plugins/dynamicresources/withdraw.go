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

// withdraw undoes the writes of the claim that the plugin sent for the pod.
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
	held.tried = others && (held.tried || written != nil && held.marked(written)) // if pods still rely on the writes, their rollbacks withdraw them
	return nil
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

// shares returns whether the claim may be reserved for the pod, and whether other pods rely on the writes of the claim. Only a pod
// whose pre-bind step has begun relies on them, because a later step would send the writes again.
func (d *devices) shares(held *assumedClaim, pod types.UID) (reserved, others bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for uid, one := range held.holders {
		others = others || uid != pod && one.begun && !one.leaving
	}
	own := held.holders[pod]
	return own != nil && own.tried, others
}

// withdrawal describes how writes for a claim are undone. Reservations for the pods that the function leaves selects are removed.
// If no other pod uses the claim and the function frees returns true, the claim's allocation, finalizer and SchedulerAnnotation
// are removed, too.
type withdrawal struct {
	namespace, name string
	uid             types.UID
	scheduler       string
	leaves          func(resourceapi.ResourceClaimConsumerReference) bool
	frees           func(*resourceapi.ResourceClaim) bool
	// of is the resource version that the claim must have. If the claim has another version, it is not changed. An empty value
	// allows any version.
	of string
}

// writeWithdrawal sends the writes of the withdrawal, in the reverse order of the original writes. The API server rejects a write
// if the claim has changed since it was read. It returns the resulting claim; nil if the claim was deleted or recreated, or has
// another version than w.of.
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
