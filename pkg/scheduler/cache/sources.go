// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"reflect"
	"time"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	kubefeatures "k8s.io/kubernetes/pkg/features"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
	vcinformers "volcano.sh/apis/pkg/client/informers/externalversions"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/features"
)

// sources are the scheduler's informers.
type sources struct {
	known   known
	kube    informers.SharedInformerFactory
	volcano vcinformers.SharedInformerFactory
	// shared is the state that plugins which allocate devices share; nil if dynamic resource allocation is off.
	shared k8sframework.SharedDRAManager
}

func newSources(kube kubernetes.Interface, volcano vcclient.Interface, resync time.Duration) (*sources, error) {
	s := &sources{}
	s.kube = kubeFactory{informers.NewSharedInformerFactory(kube, resync), &s.known}
	s.volcano = volcanoFactory{vcinformers.NewSharedInformerFactory(volcano, resync), &s.known}
	s.askForUpstream()
	if !utilfeature.DefaultFeatureGate.Enabled(kubefeatures.DynamicResourceAllocation) {
		return s, nil
	}
	var err error
	s.shared, err = newDRAManager(s.kube, kube)
	return s, err
}

// askForUpstream creates the informers whose listers plugins of upstream and Kubernetes read. A factory runs only
// informers that were requested before it starts.
func (s *sources) askForUpstream() {
	core, storage := s.kube.Core().V1(), s.kube.Storage().V1()
	core.Namespaces().Informer()
	core.Services().Informer()
	core.PersistentVolumes().Informer()
	core.PersistentVolumeClaims().Informer()
	storage.StorageClasses().Informer()
	storage.VolumeAttachments().Informer()
	enabled := utilfeature.DefaultFeatureGate.Enabled
	if enabled(features.WorkLoadSupport) {
		core.ReplicationControllers().Informer()
		s.kube.Apps().V1().ReplicaSets().Informer()
		s.kube.Apps().V1().StatefulSets().Informer()
	}
	if enabled(features.PodDisruptionBudgetsSupport) {
		s.kube.Policy().V1().PodDisruptionBudgets().Informer()
	}
	if options.ServerOpts != nil && options.ServerOpts.EnableCSIStorage && enabled(features.CSIStorage) {
		storage.CSIDrivers().Informer()
		s.kube.Storage().V1beta1().CSIStorageCapacities().Informer()
	}
}

// newDRAManager returns the same manager that kube-scheduler creates for its plugin DynamicResources.
func newDRAManager(factory informers.SharedInformerFactory, kube kubernetes.Interface) (k8sframework.SharedDRAManager, error) {
	ctx := context.Background()
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), factory.Resource().V1().ResourceClaims().Informer(), "ResourceClaim", "", nil)
	opts := resourceslicetracker.Options{
		EnableDeviceTaints: utilfeature.DefaultFeatureGate.Enabled(kubefeatures.DRADeviceTaints),
		SliceInformer:      factory.Resource().V1().ResourceSlices(),
		KubeClient:         kube,
	}
	if opts.EnableDeviceTaints {
		opts.TaintInformer = factory.Resource().V1alpha3().DeviceTaintRules()
		opts.ClassInformer = factory.Resource().V1().DeviceClasses()
	}
	slices, err := resourceslicetracker.StartTracker(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("watching ResourceSlices: %w", err)
	}
	return dynamicresources.NewDRAManager(ctx, claims, slices, factory), nil
}

// start runs all informers until the channel stop is closed.
func (s *sources) start(stop <-chan struct{}) {
	s.kube.Start(stop)
	s.volcano.Start(stop)
}

// await waits until the initial lists of all informers are read, or until stop is closed.
func (s *sources) await(stop <-chan struct{}) {
	s.kube.WaitForCacheSync(stop)
	s.volcano.WaitForCacheSync(stop)
}

// awaitVolumes returns once the objects that decide which volumes pods attach are listed, or when ctx ends.
func (s *sources) awaitVolumes(ctx context.Context) error {
	core, classes := s.kube.Core().V1(), s.kube.Storage().V1().StorageClasses()
	if !toolscache.WaitForCacheSync(ctx.Done(), core.PersistentVolumeClaims().Informer().HasSynced, core.PersistentVolumes().Informer().HasSynced, classes.Informer().HasSynced) {
		return ctx.Err()
	}
	return nil
}

// notSynced lists the kinds whose initial list has not been read.
func (s *sources) notSynced() (kinds []string) {
	now := make(chan struct{})
	close(now)
	for _, synced := range []map[reflect.Type]bool{s.kube.WaitForCacheSync(now), s.volcano.WaitForCacheSync(now)} {
		for kind, is := range synced {
			if !is {
				kinds = append(kinds, kind.String())
			}
		}
	}
	return kinds
}
