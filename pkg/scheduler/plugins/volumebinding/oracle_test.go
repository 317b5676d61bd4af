// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	storageinformers "k8s.io/client-go/informers/storage/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
	v1helper "k8s.io/kubernetes/pkg/apis/core/v1/helper"
	k8sfeature "k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	k8s "k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
)

// oracle is a Kubernetes binder that is created for one question. It gets the volumes and claims of the informers,
// changed as if the assumed claims were already written, and storage capacities less the assumed volumes.
type oracle struct {
	*testCluster
	pod        *v1.Pod
	binder     k8s.SchedulerVolumeBinder
	capacities *reducedCapacities
}

// takes returns the binder's answer for the pod. It checks the claims one by one, the smallest first, so that the
// capacity for one claim is not free for the next. The volume of a claim that other pods hold must be reached by the
// node, because the binder would choose another.
func (w *testCluster) takes(pod *v1.Pod, node *v1.Node) bool {
	w.t.Helper()
	o := oracle{testCluster: w, pod: pod, capacities: &reducedCapacities{CSIStorageCapacityLister: w.factory.Storage().V1().CSIStorageCapacities().Lister(), drawn: map[types.NamespacedName]int64{}}}
	core, storage := w.factory.Core().V1(), w.factory.Storage().V1()
	claims, pvs := &claimFeed{}, &volumeFeed{}
	o.binder = k8s.NewVolumeBinder(klog.Background(), nil, k8sfeature.Features{EnableVolumeAttributesClass: true}, core.Pods(), core.Nodes(), storage.CSINodes(),
		claims, pvs, storage.StorageClasses(), k8s.CapacityCheck{CSIDriverInformer: storage.CSIDrivers(), CSIStorageCapacityInformer: o.capacities}, time.Minute)
	o.feed(claims, pvs)
	wanted, err := w.plugin.volumes.objects.bySize(pod)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, claim := range wanted {
		own := slices.IndexFunc(claimVolumes(pod), func(own claimVolume) bool { return own.claim == nameOf(claim) })
		if !o.takesClaim(podClaim{claimVolumes(pod)[own], claim}, node) {
			return false
		}
	}
	return true
}

// feed passes the objects to the binder.
func (o *oracle) feed(claims *claimFeed, pvs *volumeFeed) {
	held := o.plugin.volumes.assumptions.held
	all, err := o.plugin.volumes.objects.claims.List(labels.Everything())
	if err != nil {
		o.t.Fatal(err)
	}
	reserved := map[string]*v1.PersistentVolumeClaim{}
	for _, claim := range all {
		if h := held[nameOf(claim)]; h != nil && h.volume != "" {
			reserved[h.volume] = claim
		} else if h != nil {
			claim = claim.DeepCopy()
			metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.AnnSelectedNode, h.node)
			if h.capacity.Name != "" {
				o.capacities.drawn[h.capacity] += sizeOf(claim)
			}
		}
		claims.OnAdd(claim, false)
	}
	list, err := o.plugin.volumes.objects.volumes.List(labels.Everything())
	if err != nil {
		o.t.Fatal(err)
	}
	for _, pv := range list {
		if claim := reserved[pv.Name]; claim != nil {
			if pv, _, err = volume.GetBindVolumeToClaim(pv, claim); err != nil {
				o.t.Fatal(err)
			}
		}
		pvs.OnAdd(pv, false)
	}
}

// podClaim is a claim of a pod with the volume that names it.
type podClaim struct {
	claimVolume
	*v1.PersistentVolumeClaim
}

// withVolumes returns a copy of the pod with only these volumes.
func withVolumes(pod *v1.Pod, volumes ...claimVolume) *v1.Pod {
	reduced := *pod
	reduced.Spec.Volumes = make([]v1.Volume, len(volumes))
	for i, v := range volumes {
		reduced.Spec.Volumes[i] = v.volume
	}
	return &reduced
}

func (o *oracle) takesClaim(claim podClaim, node *v1.Node) bool {
	held := o.plugin.volumes.assumptions.held[claim.claim]
	if held != nil && held.volume != "" && volume.CheckNodeAffinity(o.volume(held.volume), node.Labels) != nil {
		return false
	}
	if selected := claim.Annotations[volume.AnnSelectedNode]; held != nil && held.volume == "" && slices.Contains(claim.Spec.AccessModes, v1.ReadWriteMany) &&
		(selected == "" || selected == held.node) { // the binder refuses this until the volume exists
		class, err := o.plugin.volumes.objects.classes.Get(volume.GetPersistentVolumeClaimClass(claim.PersistentVolumeClaim))
		return err == nil && v1helper.MatchTopologySelectorTerms(class.AllowedTopologies, labels.Set(node.Labels))
	}
	if held != nil && held.capacity.Name != "" { // the volume is created only once
		o.capacities.drawn[held.capacity] -= sizeOf(claim.PersistentVolumeClaim)
		defer func() { o.capacities.drawn[held.capacity] += sizeOf(claim.PersistentVolumeClaim) }()
	}
	single := withVolumes(o.pod, claim.claimVolume)
	claims, err := o.binder.GetPodVolumeClaims(klog.Background(), single)
	if err != nil {
		o.t.Fatal(err)
	}
	found, reasons, err := o.binder.FindPodVolumes(klog.Background(), single, claims, node)
	if err != nil {
		o.t.Fatal(err)
	}
	if len(reasons) > 0 {
		return false
	}
	for _, made := range found.DynamicProvisions {
		if made.NodeCapacity != nil && held == nil {
			o.capacities.drawn[capacityName(made.NodeCapacity)] += sizeOf(made.PVC)
		}
	}
	if _, err := o.binder.AssumePodVolumes(klog.Background(), single, node.Name, found); err != nil {
		o.t.Fatal(err)
	}
	return true
}

// reducedCapacities are the capacities that would remain if all assumed volumes existed.
type reducedCapacities struct {
	storageinformers.CSIStorageCapacityInformer
	storagelisters.CSIStorageCapacityLister
	drawn map[types.NamespacedName]int64
}

func (r *reducedCapacities) Lister() storagelisters.CSIStorageCapacityLister { return r }

func (r *reducedCapacities) List(selector labels.Selector) ([]*storagev1.CSIStorageCapacity, error) {
	list, err := r.CSIStorageCapacityLister.List(selector)
	for i, capacity := range list {
		if drawn := r.drawn[capacityName(capacity)]; drawn > 0 && capacity.Capacity != nil {
			less := capacity.DeepCopy()
			left := resource.NewQuantity(capacity.Capacity.Value()-drawn, resource.BinarySI)
			less.Capacity = left
			if less.MaximumVolumeSize != nil && less.MaximumVolumeSize.Cmp(*left) > 0 {
				less.MaximumVolumeSize = left
			}
			list[i] = less
		}
	}
	return list, err
}

// feed replaces an informer. It delivers the objects passed to it to one handler.
type feed struct {
	cache.SharedIndexInformer
	cache.ResourceEventHandler
}

func (f *feed) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	f.ResourceEventHandler = handler
	return nil, nil
}

type claimFeed struct{ feed }

var _ coreinformers.PersistentVolumeClaimInformer = (*claimFeed)(nil)

func (f *claimFeed) Informer() cache.SharedIndexInformer             { return &f.feed }
func (f *claimFeed) Lister() corelisters.PersistentVolumeClaimLister { return nil }

type volumeFeed struct{ feed }

var _ coreinformers.PersistentVolumeInformer = (*volumeFeed)(nil)

func (f *volumeFeed) Informer() cache.SharedIndexInformer        { return &f.feed }
func (f *volumeFeed) Lister() corelisters.PersistentVolumeLister { return nil }
