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

// volumes holds the volumes and claims of a cluster as informers show them, with the assumptions. The binder listens to
// the informers for as long as they run, so each set of informers has one, which outlives configurations.
type volumes struct {
	kube    kubernetes.Interface
	binder  k8s.SchedulerVolumeBinder
	objects objects
	matcher matcher

	// mu guards the assumptions. It is not held during a call to the API server.
	mu sync.Mutex
	// assumed is by pod, held by claim.
	assumed map[types.UID]*assumedPod
	held    map[types.NamespacedName]*assumedClaim
	// reserved are the volumes of held claims. drawn is the amount, in bytes, that volumes still to be provisioned for
	// held claims use of each capacity.
	reserved map[string]bool
	// reservations counts how often a volume became reserved or unreserved.
	reservations int64
	drawn        map[types.NamespacedName]int64
}

// objects lists the cluster's objects as informers show them.
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
	// sources are the kinds of objects that the binder and the listers read.
	sources []source
	ready   atomic.Bool
}

// source is a kind of objects. read reports whether its initial list has been processed.
type source struct {
	kind string
	read cache.InformerSynced
}

// unbounded is the binder's own time limit for claims. The context of each call limits it instead.
const unbounded = time.Duration(math.MaxInt64)

// newVolumes returns volumes, and the informers that must run for it.
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
		assumed:  map[types.UID]*assumedPod{},
		held:     map[types.NamespacedName]*assumedClaim{},
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

// newBinder returns a Kubernetes binder for these claims and volumes, which writes with the client.
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

// The kinds of objects that the binder watches itself.
const (
	claimsKind  = "persistentvolumeclaims"
	volumesKind = "persistentvolumes"
)

// The binder does not report when its caches are full. Synced informers are not enough, because handlers run later; so
// the registrations of its handlers are checked.

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

// notingInformer records the handlers that must have processed the initial list.
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
