// SPDX-License-Identifier: Apache-2.0

package statuswriter

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// hangingNamespace is a client that writes no status of a pod in namespace "slow" before the channel open is closed, as
// if an admission webhook of that namespace hung. It records the status writes that began, by namespace and name.
type hangingNamespace struct {
	kubernetes.Interface
	open  chan struct{}
	mu    sync.Mutex
	begun map[string]bool
}

func (h *hangingNamespace) CoreV1() corev1.CoreV1Interface {
	return hangingCore{h.Interface.CoreV1(), h}
}

type hangingCore struct {
	corev1.CoreV1Interface
	of *hangingNamespace
}

func (c hangingCore) Pods(namespace string) corev1.PodInterface {
	return hangingPods{c.CoreV1Interface.Pods(namespace), namespace, c.of}
}

type hangingPods struct {
	corev1.PodInterface
	namespace string
	of        *hangingNamespace
}

func (p hangingPods) UpdateStatus(ctx context.Context, pod *v1.Pod, opts metav1.UpdateOptions) (*v1.Pod, error) {
	p.of.mu.Lock()
	p.of.begun[pod.Namespace+"/"+pod.Name] = true
	p.of.mu.Unlock()
	if p.namespace == "slow" {
		select {
		case <-p.of.open:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return p.PodInterface.UpdateStatus(ctx, pod, opts)
}

func (h *hangingNamespace) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.begun)
}

// TestWritesThatHangInOneNamespaceDoNotDelayOthers checks that a namespace whose status writes hang leaves workers to
// other namespaces, and that its own statuses are all written once the writes no longer hang.
func TestWritesThatHangInOneNamespaceDoNotDelayOthers(t *testing.T) {
	inCluster(t, func(t *testing.T, w *testWriter) {
		kube := &hangingNamespace{Interface: w.deps.Kube, open: make(chan struct{}), begun: map[string]bool{}}
		w.deps.Kube = kube
		const pods = 20
		put := func(pod *v1.Pod) {
			w.add(pod)
			pod = pod.DeepCopy()
			pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: "no room"}}
			w.PutPod(pod, 0)
		}
		for range 2 { // a status that is desired again while the first one waits is not written twice
			for i := range pods {
				put(schedtest.MakePod().Namespace("slow").Name(fmt.Sprintf("p%d", i)).Group("g").Obj())
			}
			synctest.Wait()
		}
		if got := kube.count(); got != workers/2 {
			t.Errorf("%d writes of one namespace run at once, want %d", got, workers/2)
		}
		put(pod(0).Obj())
		synctest.Wait()
		if got := podScheduled(w.cluster, "p0"); got != "False Unschedulable: no room" {
			t.Errorf("the pod of another namespace has the condition %q while writes of the first namespace hang", got)
		}
		close(kube.open)
		synctest.Wait()
		if got := kube.count(); got != pods+1 {
			t.Errorf("%d statuses were written at the end, want %d", got, pods+1)
		}
		if left := w.unwritten(); len(left) > 0 {
			t.Errorf("not written: %v", left)
		}
	})
}
