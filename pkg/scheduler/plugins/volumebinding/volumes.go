// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	feature "k8s.io/apiserver/pkg/util/feature"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/features"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// volumes holds the state that all instances of the plugin on the same informers share. The state outlives sessions and
// configurations.
type volumes struct {
	objects     objects
	assumptions assumptions
	writer      writer
	// unrecovered are the claims for which a former leader's writes could not be withdrawn yet.
	unrecovered *framework.Unrecovered
}

// assumptions records which claims placed pods hold, and which volumes and storage capacities are assumed for these claims.
type assumptions struct {
	// mu guards all fields of assumptions. It is not held during a call to the API server.
	mu sync.Mutex
	// assumed are the placed pods that hold claims, by the pod's UID. held are the claims that placed pods hold, by the claim's
	// name.
	assumed map[types.UID]*assumedPod
	held    map[types.NamespacedName]*assumedClaim
	// reserved are the claims with an assumed existing volume, by the volume's name. drawn is, for each CSIStorageCapacity, the
	// number of bytes of the assumed volumes to be provisioned from it.
	reserved map[string]*assumedClaim
	// reservations is increased each time a volume is reserved or released. A cached result is valid only as long as reservations
	// does not change.
	reservations int64
	drawn        map[types.NamespacedName]int64
}

// objects reads the cluster's objects from informers.
type objects struct {
	pods       corelisters.PodLister
	nodes      corelisters.NodeLister
	claims     corelisters.PersistentVolumeClaimLister
	volumes    corelisters.PersistentVolumeLister
	indexer    cache.Indexer
	podIndexer cache.Indexer
	classes    storagelisters.StorageClassLister
	drivers    storagelisters.CSIDriverLister
	csiNodes   storagelisters.CSINodeLister
	capacities storagelisters.CSIStorageCapacityLister
	// attributesClasses reports whether the feature gate VolumeAttributesClass is on (KEP-3751).
	attributesClasses bool
	// synced has, for each kind of object, a function that reports whether the initial list has been processed. ready is set once
	// all lists have been processed.
	synced map[string]cache.InformerSynced
	ready  atomic.Bool
}

// newVolumes returns a new volumes object, and the informers that it reads. The caller must run these informers.
func newVolumes(h framework.Handle) (*volumes, []cache.SharedIndexInformer, error) {
	factory := h.InformerFactory()
	core, storage := factory.Core().V1(), factory.Storage().V1()
	if err := addIndexes(core.PersistentVolumes().Informer(), volumeIndexes); err != nil {
		return nil, nil, fmt.Errorf("indexing volumes: %w", err)
	}
	if err := addIndexes(core.Pods().Informer(), podIndexes); err != nil {
		return nil, nil, fmt.Errorf("indexing pods: %w", err)
	}
	v := &volumes{
		writer: writer{h.KubeClient(), h.EventRecorder()},
		objects: objects{
			pods:              core.Pods().Lister(),
			nodes:             core.Nodes().Lister(),
			claims:            core.PersistentVolumeClaims().Lister(),
			volumes:           core.PersistentVolumes().Lister(),
			indexer:           core.PersistentVolumes().Informer().GetIndexer(),
			podIndexer:        core.Pods().Informer().GetIndexer(),
			classes:           storage.StorageClasses().Lister(),
			drivers:           storage.CSIDrivers().Lister(),
			csiNodes:          storage.CSINodes().Lister(),
			capacities:        storage.CSIStorageCapacities().Lister(),
			attributesClasses: feature.DefaultFeatureGate.Enabled(features.VolumeAttributesClass),
			synced:            map[string]cache.InformerSynced{},
		},
		assumptions: assumptions{
			assumed: map[types.UID]*assumedPod{}, held: map[types.NamespacedName]*assumedClaim{}, reserved: map[string]*assumedClaim{},
			drawn: map[types.NamespacedName]int64{},
		},
	}
	v.unrecovered = framework.NewUnrecovered(Name, recovery{&v.writer}, h.Wake)
	if err := v.assumptions.watch(core); err != nil {
		return nil, nil, fmt.Errorf("watching claims and volumes: %w", err)
	}
	var needed []cache.SharedIndexInformer
	for kind, informer := range map[string]cache.SharedIndexInformer{
		"pods": core.Pods().Informer(), "nodes": core.Nodes().Informer(),
		"persistentvolumeclaims": core.PersistentVolumeClaims().Informer(), "persistentvolumes": core.PersistentVolumes().Informer(),
		"storageclasses": storage.StorageClasses().Informer(), "csinodes": storage.CSINodes().Informer(),
		"csidrivers": storage.CSIDrivers().Informer(), "csistoragecapacities": storage.CSIStorageCapacities().Informer(),
	} {
		needed = append(needed, informer)
		v.objects.synced[kind] = informer.HasSynced
	}
	return v, needed, nil
}

// isReady reports whether the initial lists of all kinds of objects have been processed.
func (o *objects) isReady() bool { return len(o.unread()) == 0 }

// unread returns the kinds of objects whose initial list has not been processed.
func (o *objects) unread() []string {
	if o.ready.Load() {
		return nil
	}
	var kinds []string
	for kind, synced := range o.synced {
		if !synced() {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 {
		o.ready.Store(true)
	}
	slices.Sort(kinds)
	return kinds
}
