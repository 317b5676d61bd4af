// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
	vcinformers "volcano.sh/apis/pkg/client/informers/externalversions"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Handle is the interface of the scheduler for plugins outside a session.
type Handle struct {
	rest       *rest.Config
	kube       kubernetes.Interface
	vc         vcclient.Interface
	recorder   record.EventRecorder
	sources    *sources
	plugins    *pluginInformers
	changes    *changes
	hyperNodes *hyperNodes
	wake       func(Urgency)
}

var _ framework.Handle = (*Handle)(nil)

// KubeClient implements framework.Handle.
func (h *Handle) KubeClient() kubernetes.Interface { return h.kube }

// VCClient returns the Volcano client of sessions and plugins. This client passes updates of queues to the status
// writer (package statuswriter).
func (h *Handle) VCClient() vcclient.Interface { return h.vc }

// RestConfig returns a copy of the client configuration, for the caller to use.
func (h *Handle) RestConfig() *rest.Config { return rest.CopyConfig(h.rest) }

// InformerFactory returns the informers of Kubernetes' objects.
func (h *Handle) InformerFactory() informers.SharedInformerFactory { return h.sources.kube }

// VolcanoInformerFactory returns the informers of Volcano's objects.
func (h *Handle) VolcanoInformerFactory() vcinformers.SharedInformerFactory { return h.sources.volcano }

// StartInformers runs the informers, except informers that belong to the cache or already run. They run as long as the
// cache's own informers.
func (h *Handle) StartInformers(informers ...toolscache.SharedIndexInformer) error {
	h.changes.storage.watch(informers...)
	return h.plugins.start(informers)
}

// AwaitInformers returns when the informers of plugins have synced. If ctx ends first, it returns an error. Later calls
// then do not wait for the informers that have not synced, unless a plugin passes them to StartInformers again.
func (h *Handle) AwaitInformers(ctx context.Context) error { return h.plugins.await(ctx) }

// HyperNodes returns the valid HyperNodes of the cluster.
func (h *Handle) HyperNodes() *api.HyperNodesInfo { return h.hyperNodes.current() }

// PodsOn returns the node's pods that have not ended, as the watch shows them.
func (h *Handle) PodsOn(node string) []*v1.Pod {
	shown, err := h.sources.kube.Core().V1().Pods().Informer().GetIndexer().ByIndex(podsByNode, node)
	if err != nil {
		logger().Error(err, "Listing the pods of a node failed", "node", node)
	}
	pods := make([]*v1.Pod, 0, len(shown))
	for _, object := range shown {
		if pod, ok := object.(*v1.Pod); ok && !finished(pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// Wake requests a cycle at once. A plugin calls it after a change that may let a pending task be placed.
func (h *Handle) Wake() { h.wake(WakeNow) }

// EventRecorder returns an event recorder. The recorder drops an event that would only repeat the previous one.
func (h *Handle) EventRecorder() record.EventRecorder { return h.recorder }

// SharedDRAManager returns the state that plugins which allocate devices share; nil where the API server does not serve
// device claims.
func (h *Handle) SharedDRAManager() k8sframework.SharedDRAManager { return h.sources.shared }
