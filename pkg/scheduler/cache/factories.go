// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/admissionregistration"
	"k8s.io/client-go/informers/apiserverinternal"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/autoscaling"
	"k8s.io/client-go/informers/batch"
	"k8s.io/client-go/informers/certificates"
	"k8s.io/client-go/informers/coordination"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/discovery"
	"k8s.io/client-go/informers/events"
	"k8s.io/client-go/informers/extensions"
	"k8s.io/client-go/informers/flowcontrol"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/networking"
	"k8s.io/client-go/informers/node"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/rbac"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/informers/storagemigration"
	toolscache "k8s.io/client-go/tools/cache"
	vcinformers "volcano.sh/apis/pkg/client/informers/externalversions"
	vcbatch "volcano.sh/apis/pkg/client/informers/externalversions/batch"
	vcbus "volcano.sh/apis/pkg/client/informers/externalversions/bus"
	vcconfig "volcano.sh/apis/pkg/client/informers/externalversions/config"
	vcdatadependency "volcano.sh/apis/pkg/client/informers/externalversions/datadependency"
	vcflow "volcano.sh/apis/pkg/client/informers/externalversions/flow"
	vcinternalinterfaces "volcano.sh/apis/pkg/client/informers/externalversions/internalinterfaces"
	vcnodeinfo "volcano.sh/apis/pkg/client/informers/externalversions/nodeinfo"
	vcscheduling "volcano.sh/apis/pkg/client/informers/externalversions/scheduling"
	vcshard "volcano.sh/apis/pkg/client/informers/externalversions/shard"
	vctopology "volcano.sh/apis/pkg/client/informers/externalversions/topology"
	vctraining "volcano.sh/apis/pkg/client/informers/externalversions/training"

	"github.com/volcano-prebind/volcano-prebind/internal/outage"
)

// known are the informers that the factories have created. A factory does not list its informers, but each informer
// needs a watch error handler before it runs.
type known struct {
	mu        sync.Mutex
	informers map[toolscache.SharedIndexInformer]bool
}

// addErrorHandler records a new informer and adds the watch error handler to it. It returns the informer.
func (k *known) addErrorHandler(informer toolscache.SharedIndexInformer) toolscache.SharedIndexInformer {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.informers[informer] {
		return informer
	}
	if k.informers == nil {
		k.informers = map[toolscache.SharedIndexInformer]bool{}
	}
	k.informers[informer] = true
	if err := outage.RelistSoon(informer); err != nil {
		logger().Error(err, "Setting the watch error handler of an informer failed")
	}
	return informer
}

func (k *known) all() map[toolscache.SharedIndexInformer]bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.informers)
}

// kubeFactory is a factory of Kubernetes' informers that records each new informer in known.
type kubeFactory struct {
	informers.SharedInformerFactory
	known *known
}

// InformerFor implements informers.SharedInformerFactory.
func (f kubeFactory) InformerFor(object runtime.Object, newInformer internalinterfaces.NewInformerFunc) toolscache.SharedIndexInformer {
	return f.known.addErrorHandler(f.SharedInformerFactory.InformerFor(object, newInformer))
}

// Admissionregistration implements informers.SharedInformerFactory, like the methods below it.
func (f kubeFactory) Admissionregistration() admissionregistration.Interface {
	return admissionregistration.New(f, "", nil)
}
func (f kubeFactory) Internal() apiserverinternal.Interface { return apiserverinternal.New(f, "", nil) }
func (f kubeFactory) Apps() apps.Interface                  { return apps.New(f, "", nil) }
func (f kubeFactory) Autoscaling() autoscaling.Interface    { return autoscaling.New(f, "", nil) }
func (f kubeFactory) Batch() batch.Interface                { return batch.New(f, "", nil) }
func (f kubeFactory) Certificates() certificates.Interface  { return certificates.New(f, "", nil) }
func (f kubeFactory) Coordination() coordination.Interface  { return coordination.New(f, "", nil) }
func (f kubeFactory) Core() core.Interface                  { return core.New(f, "", nil) }
func (f kubeFactory) Discovery() discovery.Interface        { return discovery.New(f, "", nil) }
func (f kubeFactory) Events() events.Interface              { return events.New(f, "", nil) }
func (f kubeFactory) Extensions() extensions.Interface      { return extensions.New(f, "", nil) }
func (f kubeFactory) Flowcontrol() flowcontrol.Interface    { return flowcontrol.New(f, "", nil) }
func (f kubeFactory) Networking() networking.Interface      { return networking.New(f, "", nil) }
func (f kubeFactory) Node() node.Interface                  { return node.New(f, "", nil) }
func (f kubeFactory) Policy() policy.Interface              { return policy.New(f, "", nil) }
func (f kubeFactory) Rbac() rbac.Interface                  { return rbac.New(f, "", nil) }
func (f kubeFactory) Resource() resource.Interface          { return resource.New(f, "", nil) }
func (f kubeFactory) Scheduling() scheduling.Interface      { return scheduling.New(f, "", nil) }
func (f kubeFactory) Storage() storage.Interface            { return storage.New(f, "", nil) }
func (f kubeFactory) Storagemigration() storagemigration.Interface {
	return storagemigration.New(f, "", nil)
}

// volcanoFactory is a factory of Volcano's informers that records each new informer in known.
type volcanoFactory struct {
	vcinformers.SharedInformerFactory
	known *known
}

// InformerFor implements vcinformers.SharedInformerFactory.
func (f volcanoFactory) InformerFor(object runtime.Object, newInformer vcinternalinterfaces.NewInformerFunc) toolscache.SharedIndexInformer {
	return f.known.addErrorHandler(f.SharedInformerFactory.InformerFor(object, newInformer))
}

// Batch implements vcinformers.SharedInformerFactory, like the methods below it.
func (f volcanoFactory) Batch() vcbatch.Interface   { return vcbatch.New(f, "", nil) }
func (f volcanoFactory) Bus() vcbus.Interface       { return vcbus.New(f, "", nil) }
func (f volcanoFactory) Config() vcconfig.Interface { return vcconfig.New(f, "", nil) }
func (f volcanoFactory) Datadependency() vcdatadependency.Interface {
	return vcdatadependency.New(f, "", nil)
}
func (f volcanoFactory) Flow() vcflow.Interface             { return vcflow.New(f, "", nil) }
func (f volcanoFactory) Nodeinfo() vcnodeinfo.Interface     { return vcnodeinfo.New(f, "", nil) }
func (f volcanoFactory) Scheduling() vcscheduling.Interface { return vcscheduling.New(f, "", nil) }
func (f volcanoFactory) Shard() vcshard.Interface           { return vcshard.New(f, "", nil) }
func (f volcanoFactory) Topology() vctopology.Interface     { return vctopology.New(f, "", nil) }
func (f volcanoFactory) Training() vctraining.Interface     { return vctraining.New(f, "", nil) }
