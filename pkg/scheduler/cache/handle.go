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
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/sums"
)

// Handle is what plugins use of the scheduler outside a session.
type Handle struct {
	rest       *rest.Config
	kube       kubernetes.Interface
	vc         vcclient.Interface
	recorder   record.EventRecorder
	sources    *sources
	plugins    *pluginInformers
	changes    *changes
	hyperNodes *hyperNodes
	count      func(sums.Counter)
	wake       func(Urgency)
}

var _ framework.Handle = (*Handle)(nil)

// KubeClient returns the client plugins may use.
func (h *Handle) KubeClient() kubernetes.Interface { return h.kube }

// VCClient returns the Volcano client sessions and plugins use: their updates of queues are left to the status writer.
func (h *Handle) VCClient() vcclient.Interface { return h.vc }

// RestConfig returns what clients are made with, the caller's own.
func (h *Handle) RestConfig() *rest.Config { return rest.CopyConfig(h.rest) }

// InformerFactory returns the informers of Kubernetes' objects.
func (h *Handle) InformerFactory() informers.SharedInformerFactory { return h.sources.kube }

// VolcanoInformerFactory returns the informers of Volcano's objects.
func (h *Handle) VolcanoInformerFactory() vcinformers.SharedInformerFactory { return h.sources.volcano }

// StartInformers has the informers run: those that do not belong to the cache and do not run already, each once. They run for as long
// as the cache's own do.
func (h *Handle) StartInformers(informers ...toolscache.SharedIndexInformer) error {
	h.changes.storage.watch(informers...)
	return h.plugins.start(informers)
}

// AwaitInformers returns when what plugins watch is read. If the context ends before, it returns an error, and
// nothing waits for these lists again unless a plugin asks for them again.
func (h *Handle) AwaitInformers(ctx context.Context) error { return h.plugins.await(ctx) }

// HyperNodes returns the HyperNodes that are valid.
func (h *Handle) HyperNodes() *api.HyperNodesInfo { return h.hyperNodes.current() }

// PodsOn returns the pods on the node that have not ended, as the watch shows them.
func (h *Handle) PodsOn(node string) []*v1.Pod {
	shown, err := h.sources.kube.Core().V1().Pods().Informer().GetIndexer().ByIndex(podsByNode, node)
	if err != nil {
		logger().Error(err, "Listing the pods on a node", "node", node)
	}
	pods := make([]*v1.Pod, 0, len(shown))
	for _, object := range shown {
		if pod, ok := object.(*v1.Pod); ok && !finished(pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// CountResources has nodes and pods counted by what the Counter knows.
func (h *Handle) CountResources(counter sums.Counter) { h.count(counter) }

// Wake has the loop run a cycle, because something changed that may let a pending task be placed.
func (h *Handle) Wake() { h.wake(WakeNow) }

// EventRecorder returns the recorder that drops an event that would only repeat the last one.
func (h *Handle) EventRecorder() record.EventRecorder { return h.recorder }

// SharedDRAManager is what plugins that allocate devices share; nil where the API server has no claims for devices.
func (h *Handle) SharedDRAManager() k8sframework.SharedDRAManager { return h.sources.shared }
