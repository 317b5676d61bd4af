// SPDX-License-Identifier: Apache-2.0

package sessiontest

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/accounting"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedulertesting "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// handle is the framework.Handle that plugins under test get.
type handle struct {
	cache   *recordingCache
	devices *schedulertesting.DeviceServer
	stop    <-chan struct{}

	mu sync.Mutex
	// known are the informers that StartInformers has started.
	known map[toolscache.SharedIndexInformer]bool
}

var _ framework.Handle = (*handle)(nil)

// Handle returns the framework.Handle that plugins under test get.
func (c *Cluster) Handle() framework.Handle { return c.handle }

// Devices returns the server of Device objects. A test uses it to change devices between two sessions. Informers
// receive such a change with a delay.
func (c *Cluster) Devices() *schedulertesting.DeviceServer { return c.handle.devices }

// StartInformers implements framework.Handle. It waits until the informers have synced, unless the server does not
// serve their kinds.
func (h *handle) StartInformers(informers ...toolscache.SharedIndexInformer) error {
	h.InformerFactory().Start(h.stop)
	h.InformerFactory().WaitForCacheSync(h.stop)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, informer := range informers {
		if h.known[informer] || informer.HasSynced() { // the informer already runs
			continue
		}
		h.known[informer] = true
		go informer.Run(h.stop)
		if h.devices.Serves() {
			toolscache.WaitForCacheSync(h.stop, informer.HasSynced)
		}
	}
	return nil
}

// countResources makes the plugin's counter determine the requests of pods from now on. The cluster's pods were added
// before any plugin was built. So the first call removes all pods and adds them again, with the counter's amounts.
func (h *handle) countResources(counter accounting.ResourceCounter) {
	counted := h.cache.sums.InUse()
	h.cache.sums.Use(counter)
	if h.cache.books != nil {
		h.cache.books.Nodes.Sums.Use(counter)
	}
	if counted {
		return
	}
	for _, pod := range h.cache.pods {
		h.cache.DeletePod(pod)
		h.cache.sums.Count(pod)
		h.cache.AddPod(pod)
		if h.cache.books != nil {
			h.cache.books.Pods.Show(pod)
		}
	}
}

// RestConfig returns a configuration for clients of Device objects only.
func (h *handle) RestConfig() *rest.Config { return h.devices.RestConfig() }

// HyperNodes returns the HyperNodes of the ClusterSpec that was loaded last.
func (h *handle) HyperNodes() *api.HyperNodesInfo {
	h.cache.Mutex.Lock()
	defer h.cache.Mutex.Unlock()
	return h.cache.HyperNodesInfo
}

// PodsOn returns the pods on the node that have not ended, according to upstream's cache.
func (h *handle) PodsOn(name string) (pods []*v1.Pod) {
	h.cache.Mutex.Lock()
	defer h.cache.Mutex.Unlock()
	if node := h.cache.Nodes[name]; node != nil {
		for _, task := range node.Tasks {
			if task.Pod.Spec.NodeName == name && !api.CompletedStatus(task.Status) {
				pods = append(pods, task.Pod)
			}
		}
	}
	return pods
}

// Wake does nothing, because the test opens sessions itself.
func (h *handle) Wake() {}

func (h *handle) KubeClient() kubernetes.Interface { return h.cache.Client() }

func (h *handle) VCClient() vcclient.Interface { return h.cache.VCClient() }

func (h *handle) InformerFactory() informers.SharedInformerFactory {
	return h.cache.SharedInformerFactory()
}

func (h *handle) EventRecorder() record.EventRecorder { return h.cache.EventRecorder() }

func (h *handle) SharedDRAManager() k8sframework.SharedDRAManager { return h.cache.SharedDRAManager() }
