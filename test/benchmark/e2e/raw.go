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

// rawBinder only posts a Binding for each pod, to the node in the pod's nodeSelector. Before that, it deletes the pod's victim, if it
// has one.
type rawBinder struct {
	client kubernetes.Interface
	// victims has the victims of pods, by the pod's name. Pods may share a victim.
	victims map[string]*rawVictim
	work    chan *corev1.Pod
	wg      sync.WaitGroup

	mu   sync.Mutex
	errs []error
}

// rawVictim is a pod that is deleted once.
type rawVictim struct {
	name string
	once sync.Once
	err  error
}

// startRawBinder starts this number of writers. room is the number of pods that can wait for one of them without
// blocking add.
func startRawBinder(ctx context.Context, client kubernetes.Interface, victims map[string]*rawVictim, writers, room int) *rawBinder {
	b := &rawBinder{client: client, victims: victims, work: make(chan *corev1.Pod, room)}
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
	if victim := b.victims[pod.Name]; victim != nil {
		victim.once.Do(func() {
			victim.err = b.client.CoreV1().Pods(namespace).Delete(ctx, victim.name, metav1.DeleteOptions{})
		})
		if victim.err != nil {
			return fmt.Errorf("deleting pod %s: %w", victim.name, victim.err)
		}
	}
	err := b.client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		Target:     corev1.ObjectReference{Kind: "Node", Name: pod.Spec.NodeSelector[corev1.LabelHostname]},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("binding pod %s: %w", pod.Name, err)
	}
	return nil
}
