// SPDX-License-Identifier: Apache-2.0

package cache

import (
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/books"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
)

// storageChanges handles the objects that decide where claims without a volume may get one (volumes, storage classes, CSI drivers and nodes), and
// where claims may get devices (devices, their classes, and the claims that have them).
type storageChanges struct {
	books       *books.Books
	kube        informers.SharedInformerFactory
	handlers    *handlers
	backoff     *binding.Backoff
	reports     *report.Reporter
	responsible *responsible
	wake        func(Urgency)
}

// watchAll adds the handlers of the informers that the cache has itself.
func (s *storageChanges) watchAll() {
	core, storage := s.kube.Core().V1(), s.kube.Storage().V1()
	s.handlers.feed(core.PersistentVolumeClaims().Informer(), s.claimChanged, s.claimUpdated, s.claimChanged)
	s.handlers.feed(storage.CSINodes().Informer(), s.storageAdded, s.storageUpdated, s.storageDeleted)
	s.watch(core.PersistentVolumes().Informer(), storage.StorageClasses().Informer(), storage.VolumeAttachments().Informer())
}

// watch adds handlers to the informers, which plugins may have brought, unless they have one.
func (s *storageChanges) watch(informers ...cache.SharedIndexInformer) {
	for _, informer := range informers {
		s.handlers.addOnce(informer, s.storageAdded, s.storageUpdated, s.storageDeleted)
	}
}

// storageAdded wakes for a new object that may let a pod with claims be placed.
func (s *storageChanges) storageAdded(obj any) {
	switch object := obj.(type) {
	case *v1.PersistentVolume:
		if isFree(object) {
			s.storageHelps()
		} else if claim := s.boundTo(object); claim != nil {
			s.claimChanged(claim)
		}
	case *storagev1.CSINode:
		s.books.Nodes.ShowCSI(object)
		s.backoff.RetryNodeSoon(object.Name)
		s.storageHelps()
	case *storagev1.StorageClass:
		s.books.Pods.ReadClaimsAgain()
		s.storageHelps()
	case *storagev1.CSIDriver, *storagev1.CSIStorageCapacity,
		*resourcev1.ResourceSlice, *resourcev1.DeviceClass, *resourcev1.ResourceClaim:
		s.storageHelps()
	}
}

// boundTo is the claim that is bound to the volume, which may be seen before it; nil for none.
func (s *storageChanges) boundTo(volume *v1.PersistentVolume) *v1.PersistentVolumeClaim {
	ref := volume.Spec.ClaimRef
	if ref == nil {
		return nil
	}
	claim, err := s.kube.Core().V1().PersistentVolumeClaims().Lister().PersistentVolumeClaims(ref.Namespace).Get(ref.Name)
	if err != nil || claim.UID != ref.UID || claim.Spec.VolumeName != volume.Name {
		return nil
	}
	return claim
}

// storageUpdated does the same for objects that existed and did not help.
func (s *storageChanges) storageUpdated(oldObj, newObj any) {
	if mayHelp(oldObj, newObj) {
		s.storageAdded(newObj)
		return
	}
	switch after := newObj.(type) {
	case *storagev1.CSINode:
		s.books.Nodes.ShowCSI(after)
	case *resourcev1.ResourceClaim:
		if before, ok := oldObj.(*resourcev1.ResourceClaim); ok && mayHelpItsPods(before, after) {
			s.changedFor(podsByDeviceClaim, after)
		}
	case *resourcev1alpha3.DeviceTaintRule:
		if before, ok := oldObj.(*resourcev1alpha3.DeviceTaintRule); ok && !equality.Semantic.DeepEqual(before.Spec, after.Spec) {
			s.storageHelps()
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
func (s *storageChanges) storageDeleted(obj any) {
	switch object := obj.(type) {
	case *resourcev1.ResourceClaim:
		if object.Status.Allocation != nil {
			s.storageHelps()
		}
	case *storagev1.CSINode:
		s.books.Nodes.HideCSI(object.Name)
	case *storagev1.CSIDriver:
		if object.Spec.StorageCapacity != nil && *object.Spec.StorageCapacity {
			s.storageHelps()
		}
	case *storagev1.VolumeAttachment, *resourcev1.ResourceSlice, *resourcev1alpha3.DeviceTaintRule:
		s.storageHelps()
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
func (s *storageChanges) storageHelps() {
	for _, gang := range s.reports.FailedWithClaims() {
		s.backoff.RetrySoon(gang) // it may be a step's own doing
	}
	s.wake(WakeNow)
}
