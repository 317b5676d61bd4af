// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// rawBinder only posts a Binding for each pod, to the node in the pod's nodeSelector.
type rawBinder struct {
	client kubernetes.Interface
	work   chan *corev1.Pod
	wg     sync.WaitGroup

	mu   sync.Mutex
	errs []error
}

// startRawBinder starts this number of writers. room is the number of pods that can wait for one of them without
// blocking add.
func startRawBinder(ctx context.Context, client kubernetes.Interface, writers, room int) *rawBinder {
	b := &rawBinder{client: client, work: make(chan *corev1.Pod, room)}
	for range writers {
		b.wg.Go(func() {
			for pod := range b.work {
				if err := b.bind(ctx, pod); err != nil {
					b.mu.Lock()
					b.errs = append(b.errs, err)
					b.mu.Unlock()
				}
			}
		})
	}
	return b
}

func (b *rawBinder) add(pod *corev1.Pod) { b.work <- pod }

// finish returns, with the errors, when all Bindings were answered.
func (b *rawBinder) finish() error {
	close(b.work)
	b.wg.Wait()
	return errors.Join(b.errs...)
}

func (b *rawBinder) bind(ctx context.Context, pod *corev1.Pod) error {
	err := b.client.CoreV1().Pods(namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod.Name},
		Target:     corev1.ObjectReference{Kind: "Node", Name: pod.Spec.NodeSelector[corev1.LabelHostname]},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("binding pod %s: %w", pod.Name, err)
	}
	return nil
}
