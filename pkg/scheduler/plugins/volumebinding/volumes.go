// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	feature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	k8sfeature "k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	k8s "k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// volumes holds the volumes and claims of a cluster as informers show them, with the assumptions. The binder listens to the
// informers for as long as they run, so each set of informers has one, which outlives configurations.
type volumes struct {
	kube    kubernetes.Interface
	binder  k8s.SchedulerVolumeBinder
	objects objects
	matcher matcher

	// mu guards what is assumed. No call to the API server is made while it is held.
	mu sync.Mutex
	// assumed is by pod, held by claim.
	assumed map[types.UID]*assumption
	held    map[types.NamespacedName]*heldClaim
	// reserved are the volumes of held claims, drawn what volumes that will be made for such take of capacities, in bytes.
	reserved map[string]bool
	// reservations counts how often a volume came to be reserved, or no longer was.
	reservations int64
	drawn        map[types.NamespacedName]int64
}

// objects are the cluster's, as informers show them.
type objects struct {
	pods       corelisters.PodLister
	nodes      corelisters.NodeLister
	claims     corelisters.PersistentVolumeClaimLister
	volumes    corelisters.PersistentVolumeLister
	indexer    cache.Indexer
	podIndexer cache.Indexer
	classes    storagelisters.StorageClassLister
	drivers    storagelisters.CSIDriverLister
	capacities storagelisters.CSIStorageCapacityLister
	// attributesClasses reports whether volumes have attributes classes (KEP-3751).
	attributesClasses bool
	// sources are what the binder and the listers read.
	sources []source
	ready   atomic.Bool
}

// source is a kind of objects; read is true once what was there at the start is known.
type source struct {
	kind string
	read cache.InformerSynced
}

// unbounded is as long as the binder may wait for claims: how long it waits is said by the context of each call.
const unbounded = time.Duration(math.MaxInt64)

// newVolumes returns the informers that must run, too.
func newVolumes(h framework.Handle) (*volumes, []cache.SharedIndexInformer, error) {
	kube, factory := h.KubeClient(), h.InformerFactory()
	core, storage, enabled := factory.Core().V1(), factory.Storage().V1(), feature.DefaultFeatureGate.Enabled
	if err := addIndexes(core.PersistentVolumes().Informer(), volumeIndexes); err != nil {
		return nil, nil, fmt.Errorf("indexing volumes: %w", err)
	}
	if err := addIndexes(core.Pods().Informer(), podIndexes); err != nil {
		return nil, nil, fmt.Errorf("indexing pods: %w", err)
	}
	v := &volumes{
		kube: kube,
		objects: objects{
			pods:              core.Pods().Lister(),
			nodes:             core.Nodes().Lister(),
			claims:            core.PersistentVolumeClaims().Lister(),
			volumes:           core.PersistentVolumes().Lister(),
			indexer:           core.PersistentVolumes().Informer().GetIndexer(),
			podIndexer:        core.Pods().Informer().GetIndexer(),
			classes:           storage.StorageClasses().Lister(),
			drivers:           storage.CSIDrivers().Lister(),
			capacities:        storage.CSIStorageCapacities().Lister(),
			attributesClasses: enabled(features.VolumeAttributesClass),
		},
		assumed:  map[types.UID]*assumption{},
		held:     map[types.NamespacedName]*heldClaim{},
		reserved: map[string]bool{},
		drawn:    map[types.NamespacedName]int64{},
	}
	v.binder = newBinder(factory, client{kube, v}, claimInformer{core.PersistentVolumeClaims(), v}, volumeInformer{core.PersistentVolumes(), v})
	if _, err := core.PersistentVolumeClaims().Informer().AddEventHandler(v.noteBound()); err != nil {
		return nil, nil, fmt.Errorf("watching claims: %w", err)
	}
	claims, pvs := &claimFeed{}, &volumeFeed{}
	v.matcher = matcher{newBinder(factory, nil, claims, pvs), &claims.feed, &pvs.feed}
	var needed []cache.SharedIndexInformer
	for kind, informer := range map[string]cache.SharedIndexInformer{
		"pods": core.Pods().Informer(), "nodes": core.Nodes().Informer(),
		claimsKind: core.PersistentVolumeClaims().Informer(), volumesKind: core.PersistentVolumes().Informer(),
		"storageclasses": storage.StorageClasses().Informer(), "csinodes": storage.CSINodes().Informer(),
		"csidrivers": storage.CSIDrivers().Informer(), "csistoragecapacities": storage.CSIStorageCapacities().Informer(),
	} {
		needed = append(needed, informer)
		v.objects.sources = append(v.objects.sources, source{kind, informer.HasSynced})
	}
	return v, needed, nil
}

// newBinder returns a Kubernetes binder that knows of these claims and volumes, and writes with the client.
func newBinder(factory informers.SharedInformerFactory, kube kubernetes.Interface, claims coreinformers.PersistentVolumeClaimInformer,
	pvs coreinformers.PersistentVolumeInformer,
) k8s.SchedulerVolumeBinder {
	core, storage, enabled := factory.Core().V1(), factory.Storage().V1(), feature.DefaultFeatureGate.Enabled
	return k8s.NewVolumeBinder(
		klog.Background().WithName(Name), kube,
		k8sfeature.Features{
			EnableVolumeAttributesClass:  enabled(features.VolumeAttributesClass),
			EnableCSIMigrationPortworx:   enabled(features.CSIMigrationPortworx),
			EnableStorageCapacityScoring: enabled(features.StorageCapacityScoring),
		},
		core.Pods(), core.Nodes(), storage.CSINodes(), claims, pvs, storage.StorageClasses(),
		k8s.CapacityCheck{CSIDriverInformer: storage.CSIDrivers(), CSIStorageCapacityInformer: storage.CSIStorageCapacities()},
		unbounded,
	)
}

// isReady reports whether the initial lists have been processed.
func (o *objects) isReady() bool { return len(o.unread()) == 0 }

// unread returns the kinds of objects whose initial list has not been processed.
func (o *objects) unread() []string {
	if o.ready.Load() {
		return nil
	}
	var kinds []string
	for _, source := range o.sources {
		if !source.read() {
			kinds = append(kinds, source.kind)
		}
	}
	if len(kinds) == 0 {
		o.ready.Store(true)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// The kinds of objects that the binder watches for itself.
const (
	claimsKind  = "persistentvolumeclaims"
	volumesKind = "persistentvolumes"
)

// The binder does not report when its caches are full. That its informers have synced is not enough, because handlers run later; so
// its handlers' registrations are checked.

type claimInformer struct {
	coreinformers.PersistentVolumeClaimInformer
	of *volumes
}

func (i claimInformer) Informer() cache.SharedIndexInformer {
	return notingInformer{i.PersistentVolumeClaimInformer.Informer(), claimsKind, i.of}
}

type volumeInformer struct {
	coreinformers.PersistentVolumeInformer
	of *volumes
}

func (i volumeInformer) Informer() cache.SharedIndexInformer {
	return notingInformer{i.PersistentVolumeInformer.Informer(), volumesKind, i.of}
}

// notingInformer records which handlers must have processed the first list.
type notingInformer struct {
	cache.SharedIndexInformer
	kind string
	of   *volumes
}

func (i notingInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	registration, err := i.SharedIndexInformer.AddEventHandler(handler)
	if err == nil {
		i.of.objects.sources = append(i.of.objects.sources, source{i.kind, registration.HasSynced})
	}
	return registration, err
}
