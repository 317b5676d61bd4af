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

// storageChanges handles changes of two groups of objects. Volumes, storage classes, CSI drivers and CSI nodes decide
// where a PersistentVolumeClaim may get a volume. ResourceSlices, device classes, device taint rules and other
// ResourceClaims decide where a ResourceClaim may get devices.
type storageChanges struct {
	books       *books.Books
	kube        informers.SharedInformerFactory
	handlers    *handlers
	backoff     *binding.Backoff
	reports     *report.Reporter
	responsible *responsible
	wake        func(Urgency)
}

// watchAll adds handlers to informers that the cache itself runs: of PersistentVolumeClaims, CSINodes,
// PersistentVolumes, StorageClasses and VolumeAttachments.
func (s *storageChanges) watchAll() {
	core, storage := s.kube.Core().V1(), s.kube.Storage().V1()
	s.handlers.feed(core.PersistentVolumeClaims().Informer(), s.claimChanged, s.claimUpdated, s.claimChanged)
	s.handlers.feed(storage.CSINodes().Informer(), s.storageAdded, s.storageUpdated, s.storageDeleted)
	s.watch(core.PersistentVolumes().Informer(), storage.StorageClasses().Informer(), storage.VolumeAttachments().Informer())
}

// watch adds a handler to each of the given informers that has none. A plugin may have created the informers.
func (s *storageChanges) watch(informers ...cache.SharedIndexInformer) {
	for _, informer := range informers {
		s.handlers.addOnce(informer, s.storageAdded, s.storageUpdated, s.storageDeleted)
	}
}

// storageAdded wakes the loop for a new object that may let a pod with claims be placed.
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

// boundTo returns the claim that is bound to the volume; nil if no claim is. The watch may have shown the bound claim
// before the volume.
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

// storageUpdated wakes the loop for a change of an existing object that may let a pod with claims be placed.
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

// mayHelpItsPods reports whether a change may help pods that already use the claim: the claim's allocation, or the
// drivers' report on its devices, changed. A condition that a device must meet before its pod is bound (binding
// condition) may hold after such a change.
func mayHelpItsPods(before, after *resourcev1.ResourceClaim) bool {
	same := equality.Semantic.DeepEqual
	return !same(before.Status.Allocation, after.Status.Allocation) || !same(before.Status.Devices, after.Status.Devices)
}

// storageDeleted wakes the loop for a deleted object that may have kept pods from being placed. Such objects are a
// ResourceClaim that had devices, a ResourceSlice of an incomplete pool, a DeviceTaintRule, a CSIDriver with storage
// capacity tracking, and the VolumeAttachment of a volume that counted against its node's limit.
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

// mayHelp reports whether the change of an object may let a pod be placed. It returns false for changes that only
// reduce where a pod may be placed. It also returns false for changes that no placement depends on, such as the
// reservation of a volume.
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

// isFull reports whether the claim is reserved for as many pods as the API allows.
func isFull(claim *resourcev1.ResourceClaim) bool {
	return len(claim.Status.ReservedFor) >= resourcev1.ResourceClaimReservedForMaxSize
}

// isFree reports whether a claim may get the volume.
func isFree(volume *v1.PersistentVolume) bool {
	return volume.Status.Phase == v1.VolumeAvailable && (volume.Spec.ClaimRef == nil || volume.Spec.ClaimRef.UID == "")
}

// more reports whether a storage limit increased from before to after. A missing limit means "unlimited" for the size
// of a volume and "unknown" for the remaining capacity. So adding or removing a limit counts as an increase, too.
func more(before, after *resource.Quantity) bool {
	if before == nil || after == nil {
		return before != after
	}
	return after.Cmp(*before) > 0
}

// storageHelps requests a cycle, and shortens the waits of gangs that have members with claims and that failed.
func (s *storageChanges) storageHelps() {
	for _, gang := range s.reports.FailedWithClaims() {
		s.backoff.RetrySoon(gang) // not at once: the gang's own pre-bind step may have caused the change, and could do so in a loop
	}
	s.wake(WakeNow)
}
