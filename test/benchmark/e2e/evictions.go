// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// evictionWatch counts the fillers whose eviction was issued. Only the scheduler evicts or deletes them.
type evictionWatch struct {
	mu      sync.Mutex
	evicted map[string]bool
}

// startEvictionWatch starts the watch, which ends with the context.
func startEvictionWatch(ctx context.Context, client kubernetes.Interface) (*evictionWatch, error) {
	w := &evictionWatch{evicted: map[string]bool{}}
	fillers := cache.NewFilteredListWatchFromClient(client.CoreV1().RESTClient(), "pods", namespace,
		func(o *metav1.ListOptions) { o.LabelSelector = fillerLabel })
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: fillers,
		ObjectType:    &corev1.Pod{},
		Handler:       cache.ResourceEventHandlerFuncs{UpdateFunc: w.updated, DeleteFunc: w.deleted},
	})
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, errors.New("the watch on evictions did not start")
	}
	return w, nil
}

func (w *evictionWatch) updated(_, obj any) {
	if pod, ok := obj.(*corev1.Pod); ok && beingEvicted(pod) {
		w.add(pod.Name)
	}
}

func (w *evictionWatch) deleted(obj any) {
	if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
		_, name, _ := cache.SplitMetaNamespaceKey(key)
		w.add(name)
	}
}

func (w *evictionWatch) add(pod string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.evicted[pod] = true
}

func (w *evictionWatch) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.evicted)
}

// beingEvicted reports whether the pod is being deleted or has the condition DisruptionTarget.
func beingEvicted(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue
	})
}
