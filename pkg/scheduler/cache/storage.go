// SPDX-License-Identifier: Apache-2.0

package cache

import (
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/tools/cache"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// watchStorage watches what decides where claims without a volume may have one: volumes, storage classes, and what CSI drivers say of
// nodes; and what decides where claims may have devices: the devices, their classes, and the claims that have them. Informers that are
// watched already are left out.
func (ch *changes) watchStorage(informers ...cache.SharedIndexInformer) {
	for _, informer := range informers {
		if !ch.watches(informer) {
			ch.watch(informer, ch.storageAdded, ch.storageUpdated, ch.storageDeleted)
		}
	}
}

// storageAdded wakes for what a pod with claims may be placed by that was not there before.
func (ch *changes) storageAdded(obj any) {
	switch object := obj.(type) {
	case *v1.PersistentVolume:
		if isFree(object) {
			ch.storageHelps()
		} else if claim := ch.boundTo(object); claim != nil {
			ch.claimChanged(claim)
		}
	case *storagev1.CSINode:
		ch.cache.books.Nodes.ShowCSI(object)
		ch.cache.backoff.RetryNodeSoon(object.Name)
		ch.storageHelps()
	case *storagev1.StorageClass:
		ch.cache.books.Pods.ReadClaimsAgain()
		ch.storageHelps()
	case *storagev1.CSIDriver, *storagev1.CSIStorageCapacity,
		*resourcev1.ResourceSlice, *resourcev1.DeviceClass, *resourcev1.ResourceClaim:
		ch.storageHelps()
	}
}

// boundTo is the claim that is bound to the volume, which may be seen before it; nil for none.
func (ch *changes) boundTo(volume *v1.PersistentVolume) *v1.PersistentVolumeClaim {
	ref := volume.Spec.ClaimRef
	if ref == nil {
		return nil
	}
	claim, err := ch.cache.sources.kube.Core().V1().PersistentVolumeClaims().Lister().PersistentVolumeClaims(ref.Namespace).Get(ref.Name)
	if err != nil || claim.UID != ref.UID || claim.Spec.VolumeName != volume.Name {
		return nil
	}
	return claim
}

// storageUpdated does the same for what was there and did not help.
func (ch *changes) storageUpdated(oldObj, newObj any) {
	if mayHelp(oldObj, newObj) {
		ch.storageAdded(newObj)
		return
	}
	switch after := newObj.(type) {
	case *storagev1.CSINode:
		ch.cache.books.Nodes.ShowCSI(after)
	case *resourcev1.ResourceClaim:
		if before, ok := oldObj.(*resourcev1.ResourceClaim); ok && mayHelpItsPods(before, after) {
			ch.changedFor(podsByDeviceClaim, after)
		}
	case *resourcev1alpha3.DeviceTaintRule:
		if before, ok := oldObj.(*resourcev1alpha3.DeviceTaintRule); ok && !equality.Semantic.DeepEqual(before.Spec, after.Spec) {
			ch.storageHelps()
		}
	}
}

// mayHelpItsPods is true of a claim that has devices now, whoever allocated them, or of whose devices a driver says something else: a
// binding condition that had failed may not any more.
func mayHelpItsPods(before, after *resourcev1.ResourceClaim) bool {
	same := equality.Semantic.DeepEqual
	return !same(before.Status.Allocation, after.Status.Allocation) || !same(before.Status.Devices, after.Status.Devices)
}

// storageDeleted does the same for what kept pods out: a claim that had devices, devices of a pool that could not be reckoned with, a rule
// that tainted some, a driver, by whose capacities claims were measured, and a volume that was attached to a node, which can have no more
// than so many.
func (ch *changes) storageDeleted(obj any) {
	switch object := obj.(type) {
	case *resourcev1.ResourceClaim:
		if object.Status.Allocation != nil {
			ch.storageHelps()
		}
	case *storagev1.CSINode:
		ch.cache.books.Nodes.HideCSI(object.Name)
	case *storagev1.CSIDriver:
		if object.Spec.StorageCapacity != nil && *object.Spec.StorageCapacity {
			ch.storageHelps()
		}
	case *storagev1.VolumeAttachment, *resourcev1.ResourceSlice, *resourcev1alpha3.DeviceTaintRule:
		ch.storageHelps()
	}
}

// mayHelp is false of changes that take something away, or that nothing depends on, such as the reservation of a volume.
func mayHelp(oldObj, newObj any) bool {
	same := equality.Semantic.DeepEqual
	switch after := newObj.(type) {
	case *v1.PersistentVolume:
		before, ok := oldObj.(*v1.PersistentVolume)
		return ok && (!isFree(before) || !same(before.Labels, after.Labels) || !same(before.Spec, after.Spec))
	case *storagev1.StorageClass:
		before, ok := oldObj.(*storagev1.StorageClass)
		return ok && (before.UID != after.UID || !same(before.AllowedTopologies, after.AllowedTopologies))
	case *storagev1.CSINode:
		before, ok := oldObj.(*storagev1.CSINode)
		return ok && (before.UID != after.UID || !same(before.Spec, after.Spec) ||
			before.Annotations[v1.MigratedPluginsAnnotationKey] != after.Annotations[v1.MigratedPluginsAnnotationKey])
	case *storagev1.CSIDriver:
		before, ok := oldObj.(*storagev1.CSIDriver)
		return ok && !same(before.Spec.StorageCapacity, after.Spec.StorageCapacity)
	case *storagev1.CSIStorageCapacity:
		before, ok := oldObj.(*storagev1.CSIStorageCapacity)
		return ok && (before.UID != after.UID || more(before.Capacity, after.Capacity) || more(before.MaximumVolumeSize, after.MaximumVolumeSize))
	case *resourcev1.ResourceSlice:
		before, ok := oldObj.(*resourcev1.ResourceSlice)
		return ok && !same(before.Spec, after.Spec)
	case *resourcev1.DeviceClass:
		before, ok := oldObj.(*resourcev1.DeviceClass)
		return ok && !same(before.Spec, after.Spec)
	case *resourcev1.ResourceClaim:
		before, ok := oldObj.(*resourcev1.ResourceClaim)
		return ok && (before.UID != after.UID || before.Status.Allocation != nil && !same(before.Status.Allocation, after.Status.Allocation) ||
			isFull(before) && !isFull(after))
	}
	return false
}

// isFull is true of a claim that no more pods may use.
func isFull(claim *resourcev1.ResourceClaim) bool {
	return len(claim.Status.ReservedFor) >= resourcev1.ResourceClaimReservedForMaxSize
}

// isFree is true of a volume that a claim may be given.
func isFree(volume *v1.PersistentVolume) bool {
	return volume.Status.Phase == v1.VolumeAvailable && (volume.Spec.ClaimRef == nil || volume.Spec.ClaimRef.UID == "")
}

// more is true if the limit was raised. No limit is the highest for what a volume may have, and none at all for what there is: so its
// coming and going count, too.
func more(before, after *resource.Quantity) bool {
	if before == nil || after == nil {
		return before != after
	}
	return after.Cmp(*before) > 0
}

// storageHelps asks for a cycle, and cuts the waits of gangs whose members with claims failed.
func (ch *changes) storageHelps() {
	for _, gang := range ch.cache.failedWithClaims() {
		ch.cache.backoff.RetrySoon(gang) // it may be a step's own doing
	}
	ch.cache.wake(WakeNow)
}

// failedWithClaims are the gangs of which members with claims failed in their last transaction.
func (c *Cache) failedWithClaims() []api.JobID {
	c.reportMu.Lock()
	defer c.reportMu.Unlock()
	var gangs []api.JobID
	for gang, failure := range c.failures {
		if failure.claims {
			gangs = append(gangs, gang)
		}
	}
	return gangs
}
