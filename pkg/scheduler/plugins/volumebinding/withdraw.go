// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"context"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
)

// VolumeReleasedReason is the reason of an event on a Released volume. The event says that the claim was deleted while the volume
// was reserved for it, and that the volume stays Released.
const VolumeReleasedReason = "VolumeReleased"

// withdraw undoes the write for the claim if the write did not take effect. The API server rejects this update if the object has
// changed since it was read, for example by the volume controller or a provisioner.
func (w *writer) withdraw(ctx context.Context, held *assumedClaim) error {
	held.mu.Lock()
	defer held.mu.Unlock()
	if held.tried == "" {
		return nil
	}
	var err error
	if held.volume == "" {
		err = w.unselect(ctx, nameOf(held.claim), held.claim.UID, held.node, held.scheduler)
	} else {
		err = w.unreserve(ctx, reservation{held.volume, held.tried, held.claim.UID, held.scheduler})
	}
	if err == nil {
		held.tried, held.done = "", ""
	}
	return err
}

// unselect removes the selected node from a claim without a volume, if the claim's annotation names the scheduler. If the
// provisioner has already begun, the claim still gets the provisioned volume.
func (w *writer) unselect(ctx context.Context, name types.NamespacedName, uid types.UID, node, scheduler string) error {
	claims := w.kube.CoreV1().PersistentVolumeClaims(name.Namespace)
	return write(ctx, func(ctx context.Context) error {
		claim, err := claims.Get(ctx, name.Name, metav1.GetOptions{})
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

// reservation identifies a reservation of a volume. name and uid identify the volume, claim is the UID of the claim, and scheduler
// is the scheduler that reserved the volume.
type reservation struct {
	name       string
	uid, claim types.UID
	scheduler  string
}

// unreserve withdraws the reservation of a volume, unless the volume may hold data of the claim. If a user had reserved the volume
// for the claim's name before, the user's reservation stays.
func (w *writer) unreserve(ctx context.Context, r reservation) error {
	volumes := w.kube.CoreV1().PersistentVolumes()
	return write(ctx, func(ctx context.Context) error {
		reserved, err := volumes.Get(ctx, r.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if reserved.UID != r.uid || !reservedBy(reserved, r.scheduler, r.claim) {
			return nil
		}
		claim, err := w.liveClaim(ctx, reserved.Spec.ClaimRef)
		if err != nil {
			return err
		}
		if !isUnbound(reserved) || claim != nil && claim.Spec.VolumeName == r.name {
			if claim == nil {
				w.reportReleased(reserved)
			}
			return nil
		}
		if _, ours := reserved.Annotations[volume.AnnBoundByController]; ours {
			reserved.Spec.ClaimRef = nil
			delete(reserved.Annotations, volume.AnnBoundByController)
		} else {
			reserved.Spec.ClaimRef.UID, reserved.Spec.ClaimRef.ResourceVersion = "", ""
		}
		delete(reserved.Annotations, SchedulerAnnotation)
		delete(reserved.Annotations, ClaimAnnotation)
		_, err = volumes.Update(ctx, reserved, metav1.UpdateOptions{})
		return err
	})
}

// reservedBy reports whether the scheduler reserved the volume for the claim, and the volume is still reserved for this claim.
func reservedBy(volume *v1.PersistentVolume, scheduler string, claim types.UID) bool {
	ref := volume.Spec.ClaimRef
	return ref != nil && ref.UID == claim && volume.Annotations[SchedulerAnnotation] == scheduler && volume.Annotations[ClaimAnnotation] == string(claim)
}

// liveClaim reads the claim from the API server. It returns nil if the claim was deleted, even if a new claim has the
// same name.
func (w *writer) liveClaim(ctx context.Context, ref *v1.ObjectReference) (*v1.PersistentVolumeClaim, error) {
	claim, err := w.kube.CoreV1().PersistentVolumeClaims(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && claim.UID != ref.UID {
		return nil, nil
	}
	return claim, err
}

// isUnbound reports whether the volume was not bound since it was reserved. The phase shows this, because the volume controller
// changes the phase of the volume before it binds the claim.
func isUnbound(pv *v1.PersistentVolume) bool {
	return pv.Status.Phase == v1.VolumeAvailable || pv.Status.Phase == v1.VolumePending
}

// reportReleased writes an event on a volume that is Released, or soon will be, because its claim was deleted. The
// volume stays Released, because it may have been bound and hold data. A volume whose reclaim policy is not Retain gets no event, because Kubernetes deletes or
// wipes such a volume.
func (w *writer) reportReleased(pv *v1.PersistentVolume) {
	if isUnbound(pv) || pv.Spec.PersistentVolumeReclaimPolicy != v1.PersistentVolumeReclaimRetain {
		return
	}
	w.recorder.Eventf(pv, v1.EventTypeWarning, VolumeReleasedReason,
		"claim %s was deleted while this volume was reserved for it. The volume stays Released, because it may hold data of the claim. To make it available, check its data and remove spec.claimRef",
		klog.KRef(pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name))
}

// write calls the function that is passed as once, which reads and updates an object. After a conflict, it calls the function
// again. It returns nil if the object was deleted.
func write(ctx context.Context, once func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return once(ctx) })
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
