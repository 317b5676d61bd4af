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

// withdraw undoes the writes for the claim that did not take effect. Each write is conditional on the object's version,
// so it fails if the volume controller or a provisioner has acted meanwhile; their result is then kept.
func (v *volumes) withdraw(ctx context.Context, held *assumedClaim) error {
	held.mu.Lock()
	defer held.mu.Unlock()
	if claim := held.triedClaim; claim != nil {
		if err := v.unselect(ctx, claim.GetNamespace(), claim.GetName(), claim.GetUID(), held.node, held.scheduler); err != nil {
			return err
		}
		held.triedClaim, held.claimDone = nil, nil
	}
	if reserved := held.triedVolume; reserved != nil {
		r := reservation{name: reserved.GetName(), uid: reserved.GetUID(), claim: held.claim.UID, scheduler: held.scheduler, unbound: held.unbound}
		if err := v.release(ctx, r); err != nil {
			return err
		}
		held.triedVolume, held.volumeDone = nil, nil
	}
	return nil
}

// unselect removes the selected node from a claim without a volume, if the named scheduler has marked it. If the
// provisioner has already begun, the claim gets its volume.
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

// reservation is a volume that the named scheduler reserved for a claim.
type reservation struct {
	name       string
	uid, claim types.UID
	scheduler  string
	// unbound is a version of the volume, no later than the written one, in which it was not bound; empty if unknown.
	unbound string
}

// release frees a volume that is reserved and not bound. A reservation made by a user for a claim of that name stays.
func (v *volumes) release(ctx context.Context, r reservation) error {
	volumes := v.kube.CoreV1().PersistentVolumes()
	return write(ctx, func(ctx context.Context) error {
		reserved, err := volumes.Get(ctx, r.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if reserved.UID != r.uid || !reservedBy(reserved, r.scheduler, r.claim) {
			return nil
		}
		if free, err := v.mayFree(ctx, r, reserved); err != nil || !free {
			return err
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

// reservedBy reports whether the scheduler reserved the volume for the claim, and it has not been reserved for another
// since.
func reservedBy(volume *v1.PersistentVolume, scheduler string, claim types.UID) bool {
	ref := volume.Spec.ClaimRef
	return ref != nil && ref.UID == claim && volume.Annotations[SchedulerAnnotation] == scheduler && volume.Annotations[ClaimAnnotation] == string(claim)
}

// mayFree reports whether the reserved volume cannot hold data of the claim. The volume controller sets the volume's phase first,
// so a claim without its volume's name proves nothing, while a volume that is not Bound does. If the claim was deleted, the
// controller has released the volume, and no claim can have it. It may then be freed if it was never bound since it was reserved,
// and its reclaim policy does not delete or wipe it.
func (v *volumes) mayFree(ctx context.Context, r reservation, reserved *v1.PersistentVolume) (bool, error) {
	ref := reserved.Spec.ClaimRef
	claim, err := v.kube.CoreV1().PersistentVolumeClaims(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, err
	}
	gone := err != nil || claim.UID != r.claim
	switch reserved.Status.Phase {
	case v1.VolumeAvailable, v1.VolumePending:
		return gone || claim.Spec.VolumeName != r.name, nil
	case v1.VolumeReleased:
		if !gone || reserved.Spec.PersistentVolumeReclaimPolicy != v1.PersistentVolumeReclaimRetain {
			return false, nil
		}
		return v.neverBound(ctx, r.name, r.unbound, reserved.ResourceVersion)
	}
	return false, nil
}

// write calls once, which reads and writes an object, and repeats it on conflicts. A deleted object needs no write.
func write(ctx context.Context, once func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return once(ctx) })
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
