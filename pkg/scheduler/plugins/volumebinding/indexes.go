// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"
)

// The informer of volumes keeps those that no claim has by their storage class, and the others by the claim that has them.
const (
	freeIndex    = "volumebinding.free-by-class"
	claimedIndex = "volumebinding.by-claim"
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
}

// addIndexes adds them to an informer, which may have them and may run.
func addIndexes(informer cache.SharedIndexInformer) error {
	if _, there := informer.GetIndexer().GetIndexers()[freeIndex]; there {
		return nil
	}
	return informer.AddIndexers(volumeIndexes)
}

// byIndex returns the volumes with the value in the index.
func (v *volumes) byIndex(index, value string) []*v1.PersistentVolume {
	objects, _ := v.indexer.ByIndex(index, value) // which is there
	pvs := make([]*v1.PersistentVolume, len(objects))
	for i, object := range objects {
		pvs[i] = object.(*v1.PersistentVolume)
	}
	return pvs
}

// reservedFor returns the volumes of the claim's class that are reserved for it. Those that were for another of its name are not.
func (v *volumes) reservedFor(claim *v1.PersistentVolumeClaim) []*v1.PersistentVolume {
	var own []*v1.PersistentVolume
	for _, pv := range v.byIndex(claimedIndex, nameOf(claim).String()) {
		if volume.IsVolumeBoundToClaim(pv, claim) && volume.GetPersistentVolumeClass(pv) == volume.GetPersistentVolumeClaimClass(claim) {
			own = append(own, pv)
		}
	}
	return own
}
