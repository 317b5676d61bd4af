// SPDX-License-Identifier: Apache-2.0

package kubeplugin

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	fwk "k8s.io/kube-scheduler/framework"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/util/k8s"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// handle is the k8sframework.Handle of adapted plugins. It supports clients, informers, the event recorder, the shared
// state of devices, and the nodes of the open session. All other methods of the interface panic, as they do for
// upstream's own plugins.
type handle struct {
	*k8s.Framework
	config   func() *rest.Config
	recorder events.EventRecorder

	mu       sync.Mutex
	nodes    map[string]fwk.NodeInfo
	snapshot *k8s.Snapshot
}

var _ k8sframework.Handle = (*handle)(nil)

func newHandle(h framework.Handle) *handle {
	return &handle{
		Framework: k8s.NewFramework(nil, k8s.WithClientSet(h.KubeClient()), k8s.WithInformerFactory(h.InformerFactory()),
			k8s.WithSharedDRAManager(h.SharedDRAManager())),
		config:   h.RestConfig,
		recorder: recorder{h.EventRecorder()},
	}
}

// open sets the nodes that the adapted plugin sees from now on; nil when no session is open.
func (h *handle) open(nodes map[string]fwk.NodeInfo) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nodes, h.snapshot = nodes, nil
}

// SnapshotSharedLister implements k8sframework.Handle. A session changes the nodes, so a plugin may read them only in
// calls that the session makes. PreBind and later calls run outside the session and must not read the nodes.
func (h *handle) SnapshotSharedLister() k8sframework.SharedLister {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.snapshot == nil {
		h.snapshot = k8s.NewSnapshot(h.nodes)
	}
	return h.snapshot
}

// KubeConfig implements k8sframework.Handle.
func (h *handle) KubeConfig() *rest.Config { return h.config() }

// EventRecorder implements k8sframework.Handle.
func (h *handle) EventRecorder() events.EventRecorder { return h.recorder }

// recorder forwards events to an EventRecorder of the older interface, which takes neither the related object nor the
// action.
type recorder struct{ record.EventRecorder }

func (r recorder) Eventf(regarding, _ runtime.Object, eventType, reason, _, note string, args ...any) {
	r.EventRecorder.Eventf(regarding, eventType, reason, note, args...)
}
