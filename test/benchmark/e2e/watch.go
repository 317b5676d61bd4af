// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// binds follows a set of pods until each of them is bound.
type binds struct {
	mu    sync.Mutex
	left  int
	last  time.Time
	nodes map[string]bool
	done  chan struct{}
}

func newBinds(pods int) *binds {
	return &binds{left: pods, nodes: map[string]bool{}, done: make(chan struct{})}
}

func (b *binds) add(node string, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left--
	b.last = at
	b.nodes[node] = true
	if b.left == 0 {
		close(b.done)
	}
}

func (b *binds) end() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// where returns the values that the map of has for the nodes of the pods, sorted, each once.
func (b *binds) where(of map[string]string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	values := map[string]bool{}
	for node := range b.nodes {
		values[of[node]] = true
	}
	return slices.Sorted(maps.Keys(values))
}

func (b *binds) missing() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.left
}

// bindWatch notices binds by a watch on pods that have a node.
type bindWatch struct {
	mu sync.Mutex
	// awaited has the announced pods that have not been seen bound.
	awaited map[string]*binds
}

// startBindWatch starts the watch, which ends with the context.
func startBindWatch(ctx context.Context, client kubernetes.Interface) (*bindWatch, error) {
	w := &bindWatch{awaited: map[string]*binds{}}
	bound := fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	pods := cache.NewFilteredListWatchFromClient(client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll,
		func(o *metav1.ListOptions) { o.FieldSelector = bound })
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: pods,
		ObjectType:    &corev1.Pod{},
		Transform: func(obj any) (any, error) {
			if pod, ok := obj.(*corev1.Pod); ok {
				return &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, ResourceVersion: pod.ResourceVersion},
					Spec:       corev1.PodSpec{NodeName: pod.Spec.NodeName},
				}, nil
			}
			return obj, nil
		},
		Handler: cache.ResourceEventHandlerFuncs{AddFunc: w.bound},
	})
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, errors.New("the watch on pods did not start")
	}
	return w, nil
}

func (w *bindWatch) bound(obj any) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	now := time.Now()
	w.mu.Lock()
	b := w.awaited[pod.Name]
	delete(w.awaited, pod.Name)
	w.mu.Unlock()
	if b != nil {
		b.add(pod.Spec.NodeName, now)
	}
}

// announce registers gangs before their pods are created.
func (w *bindWatch) announce(gangs ...*gang) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range gangs {
		for _, pod := range g.pods {
			w.awaited[pod.Name] = g.binds
		}
	}
}

// await waits until all pods of the gangs are bound and returns the time of the last bind.
func await(ctx context.Context, gangs ...*gang) (time.Time, error) {
	var last time.Time
	for _, g := range gangs {
		select {
		case <-g.binds.done:
		case <-ctx.Done():
			missing, whole := 0, 0
			for _, g := range gangs {
				if n := g.binds.missing(); n > 0 {
					missing += n
				} else {
					whole++
				}
			}
			return last, fmt.Errorf("%d pods are not bound, %d of %d gangs are whole: %w", missing, whole, len(gangs), context.Cause(ctx))
		}
		if end := g.binds.end(); end.After(last) {
			last = end
		}
	}
	return last, nil
}
