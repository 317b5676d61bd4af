// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// These are the names of indexes. The informer of PersistentVolumes has three indexes: volumes without a claim by storage class,
// volumes with a claim by claim, and CSI volumes by driver and handle. The informer of pods indexes pods that have not finished by
// the claims that they use.
const (
	freeIndex    = "volumebinding.free-by-class"
	claimedIndex = "volumebinding.by-claim"
	handleIndex  = "volumebinding.by-handle"
	usersIndex   = "volumebinding.by-claim"
)

var volumeIndexes = cache.Indexers{
	freeIndex: func(object any) ([]string, error) {
		if pv := object.(*v1.PersistentVolume); pv.Spec.ClaimRef == nil {
			return []string{volume.GetPersistentVolumeClass(pv)}, nil
		}
		return nil, nil
	},
	claimedIndex: func(object any) ([]string, error) {
		if ref := object.(*v1.PersistentVolume).Spec.ClaimRef; ref != nil {
			return []string{types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}.String()}, nil
		}
		return nil, nil
	},
	handleIndex: func(object any) ([]string, error) {
		if csi := object.(*v1.PersistentVolume).Spec.CSI; csi != nil {
			return []string{handleOf(csi)}, nil
		}
		return nil, nil
	},
}

var podIndexes = cache.Indexers{
	usersIndex: func(object any) ([]string, error) {
		pod, ok := object.(*v1.Pod)
		if !ok || podutil.IsPodTerminal(pod) {
			return nil, nil
		}
		var claims []string
		for _, own := range claimVolumes(pod) {
			claims = append(claims, own.claim.String())
		}
		return claims, nil
	},
}

// handleOf returns a key of the disk that the CSI driver attaches for a volume. Several PersistentVolumes may represent the same
// disk.
func handleOf(csi *v1.CSIPersistentVolumeSource) string {
	return csi.Driver + "\x00" + csi.VolumeHandle
}

// addIndexes adds the indexes to an informer, which may already run. If the informer already has one of the indexes, it has all of
// them, and addIndexes does nothing.
func addIndexes(informer cache.SharedIndexInformer, indexes cache.Indexers) error {
	there := informer.GetIndexer().GetIndexers()
	for name := range indexes {
		if there[name] != nil {
			return nil
		}
	}
	return informer.AddIndexers(indexes)
}

// sole reports whether at most one pod that has not finished uses the claim.
func (o *objects) sole(claim *v1.PersistentVolumeClaim) bool {
	users, err := o.podIndexer.IndexKeys(usersIndex, nameOf(claim).String())
	return err == nil && len(users) <= 1
}

// byIndex returns the volumes that the index with the name lists for the value.
func (o *objects) byIndex(index, value string) []*v1.PersistentVolume {
	objects, _ := o.indexer.ByIndex(index, value) // the only error is an unknown index, and newVolumes added all of them
	pvs := make([]*v1.PersistentVolume, len(objects))
	for i, object := range objects {
		pvs[i] = object.(*v1.PersistentVolume)
	}
	return pvs
}

// reservedFor returns the volumes of the claim's storage class that are reserved for the claim. It leaves out volumes that are
// reserved for an earlier claim with the same name.
func (o *objects) reservedFor(claim *v1.PersistentVolumeClaim) []*v1.PersistentVolume {
	var own []*v1.PersistentVolume
	for _, pv := range o.byIndex(claimedIndex, nameOf(claim).String()) {
		if volume.IsVolumeBoundToClaim(pv, claim) && volume.GetPersistentVolumeClass(pv) == volume.GetPersistentVolumeClaimClass(claim) {
			own = append(own, pv)
		}
	}
	return own
}
