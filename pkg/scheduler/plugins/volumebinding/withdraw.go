// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/component-helpers/storage/volume"
)

// callTimeout bounds one read and write of an object.
const callTimeout = 15 * time.Second

// withdraw takes back what was written for the claim and was not taken up. Each write says which version of the object it is of, so
// that what the volume controller or a provisioner does meanwhile comes first, and is left alone then.
func (v *volumes) withdraw(ctx context.Context, held *heldClaim) error {
	held.mu.Lock()
	defer held.mu.Unlock()
	if claim := held.triedClaim; claim != nil {
		if err := v.unselect(ctx, claim.GetNamespace(), claim.GetName(), claim.GetUID(), held.node, held.scheduler); err != nil {
			return err
		}
		held.triedClaim, held.claimDone = nil, nil
	}
	if reserved := held.triedVolume; reserved != nil {
		since := reserved.GetResourceVersion()
		if held.volumeDone != nil {
			since = held.volumeDone.ResourceVersion
		}
		if err := v.release(ctx, reserved.GetName(), reserved.GetUID(), held.claim.UID, held.scheduler, since); err != nil {
			return err
		}
		held.triedVolume, held.volumeDone = nil, nil
	}
	return nil
}

// unselect removes the selected node from a claim that has no volume, if the scheduler of that name has marked it. The provisioner may have begun to make one: it is the
// claim's then, once it is there.
func (v *volumes) unselect(ctx context.Context, namespace, name string, uid types.UID, node, scheduler string) error {
	claims := v.kube.CoreV1().PersistentVolumeClaims(namespace)
	return write(ctx, func(ctx context.Context) error {
		claim, err := claims.Get(ctx, name, metav1.GetOptions{})
		switch {
		case err != nil:
			return err
		case claim.UID != uid || claim.Annotations[SchedulerAnnotation] != scheduler || claim.Spec.VolumeName != "" || claim.Annotations[volume.AnnSelectedNode] != node:
			return nil
		}
		delete(claim.Annotations, volume.AnnSelectedNode)
		delete(claim.Annotations, SchedulerAnnotation)
		_, err = claims.Update(ctx, claim, metav1.UpdateOptions{})
		return err
	})
}

// release frees a volume that the scheduler of that name reserved for a claim, and that is not bound to it. The volume controller begins with the volume's phase,
// so a claim that does not know its volume yet is no sign; a volume that is not Bound is. If the claim was deleted the controller has released the volume, which nobody
// can have then: it is freed, if it is known that it was not bound since the version that it was reserved with, or of; that is empty if nobody knows it.
func (v *volumes) release(ctx context.Context, name string, uid, claim types.UID, scheduler, since string) error {
	volumes := v.kube.CoreV1().PersistentVolumes()
	return write(ctx, func(ctx context.Context) error {
		reserved, err := volumes.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		ref := reserved.Spec.ClaimRef
		if reserved.UID != uid || ref == nil || ref.UID != claim || reserved.Annotations[SchedulerAnnotation] != scheduler {
			return nil
		}
		own, err := v.kube.CoreV1().PersistentVolumeClaims(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		gone := err != nil || own.UID != claim
		switch phase := reserved.Status.Phase; {
		case phase == v1.VolumeAvailable || phase == v1.VolumePending:
			if !gone && own.Spec.VolumeName == name {
				return nil
			}
		case phase == v1.VolumeReleased && gone:
			if never, err := v.neverBound(ctx, name, since, reserved.ResourceVersion); err != nil || !never {
				return err
			}
		default:
			return nil
		}
		if _, ours := reserved.Annotations[volume.AnnBoundByController]; ours {
			reserved.Spec.ClaimRef = nil
			delete(reserved.Annotations, volume.AnnBoundByController)
		} else { // a user had reserved it for a claim of that name already
			reserved.Spec.ClaimRef.UID, reserved.Spec.ClaimRef.ResourceVersion = "", ""
		}
		delete(reserved.Annotations, SchedulerAnnotation)
		_, err = volumes.Update(ctx, reserved, metav1.UpdateOptions{})
		return err
	})
}

// write reads and writes an object, again when another was faster. One that is gone needs no write.
func write(ctx context.Context, once func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return once(ctx) })
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
