// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
	vcinformers "volcano.sh/apis/pkg/client/informers/externalversions"
	vcbatch "volcano.sh/apis/pkg/client/informers/externalversions/batch"
	vcbus "volcano.sh/apis/pkg/client/informers/externalversions/bus"
	vcconfig "volcano.sh/apis/pkg/client/informers/externalversions/config"
	vcflow "volcano.sh/apis/pkg/client/informers/externalversions/flow"
	vcinternal "volcano.sh/apis/pkg/client/informers/externalversions/internalinterfaces"
	vcscheduling "volcano.sh/apis/pkg/client/informers/externalversions/scheduling"
	vcshard "volcano.sh/apis/pkg/client/informers/externalversions/shard"
	vctopology "volcano.sh/apis/pkg/client/informers/externalversions/topology"

	"github.com/volcano-prebind/volcano-prebind/internal/outage"
)

// factory creates informers of Kubernetes' kinds that list again soon after an outage of the API server. This applies
// only to the API groups for which factory has a method of its own: all groups that the controllers use.
type factory struct {
	informers.SharedInformerFactory
}

// InformerFor implements informers.SharedInformerFactory.
func (f *factory) InformerFor(object runtime.Object, newInformer internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	return f.SharedInformerFactory.InformerFor(object, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return relisting(newInformer(client, resync))
	})
}

func (f *factory) Apps() apps.Interface { return apps.New(f, metav1.NamespaceAll, nil) }
func (f *factory) Core() core.Interface { return core.New(f, metav1.NamespaceAll, nil) }
func (f *factory) Scheduling() scheduling.Interface {
	return scheduling.New(f, metav1.NamespaceAll, nil)
}

// vcFactory creates informers of Volcano's kinds that list again soon after an outage of the API server. This applies
// only to the API groups for which vcFactory has a method of its own: all groups that the controllers use.
type vcFactory struct {
	vcinformers.SharedInformerFactory
}

// InformerFor implements vcinformers.SharedInformerFactory.
func (f *vcFactory) InformerFor(object runtime.Object, newInformer vcinternal.NewInformerFunc) cache.SharedIndexInformer {
	return f.SharedInformerFactory.InformerFor(object, func(client vcclient.Interface, resync time.Duration) cache.SharedIndexInformer {
		return relisting(newInformer(client, resync))
	})
}

func (f *vcFactory) Batch() vcbatch.Interface   { return vcbatch.New(f, metav1.NamespaceAll, nil) }
func (f *vcFactory) Bus() vcbus.Interface       { return vcbus.New(f, metav1.NamespaceAll, nil) }
func (f *vcFactory) Config() vcconfig.Interface { return vcconfig.New(f, metav1.NamespaceAll, nil) }
func (f *vcFactory) Flow() vcflow.Interface     { return vcflow.New(f, metav1.NamespaceAll, nil) }
func (f *vcFactory) Scheduling() vcscheduling.Interface {
	return vcscheduling.New(f, metav1.NamespaceAll, nil)
}
func (f *vcFactory) Shard() vcshard.Interface { return vcshard.New(f, metav1.NamespaceAll, nil) }
func (f *vcFactory) Topology() vctopology.Interface {
	return vctopology.New(f, metav1.NamespaceAll, nil)
}

// relisting returns the informer, changed to list again soon after a failure. The informer must not have been started.
func relisting(informer cache.SharedIndexInformer) cache.SharedIndexInformer {
	if err := outage.RelistSoon(informer); err != nil {
		klog.ErrorS(err, "Setting the watch error handler of an informer failed; it recovers slowly from outages")
	}
	return informer
}
