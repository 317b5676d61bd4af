// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	k8s "k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
)

// matcher converts the volume chosen for a claim to the binder's type. Only a binder can create it, so matcher has a
// binder of its own, which sees only this volume and this claim.
type matcher struct {
	binder          k8s.SchedulerVolumeBinder
	claims, volumes *feed
}

// match returns the volume as the binder's find would return it for a pod that has only this claim.
func (m *matcher) match(pod *v1.Pod, claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume, node *v1.Node) ([]*k8s.BindingInfo, error) {
	m.claims.OnAdd(claim, false)
	defer m.claims.OnDelete(claim)
	m.volumes.OnAdd(pv, false)
	defer m.volumes.OnDelete(pv)
	claims, err := m.binder.GetPodVolumeClaims(klog.Background(), pod)
	if err != nil {
		return nil, err
	}
	found, reasons, err := m.binder.FindPodVolumes(klog.Background(), pod, claims, node)
	switch {
	case err != nil:
		return nil, err
	case len(reasons) > 0 || len(found.StaticBindings) != 1:
		return nil, fmt.Errorf("volume %s no longer matches the claim", pv.Name)
	}
	return found.StaticBindings, nil
}

// feed replaces an informer. It shows the objects that are passed to it, to one handler.
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
