// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
	vcinformers "volcano.sh/apis/pkg/client/informers/externalversions"
	batchlisters "volcano.sh/apis/pkg/client/listers/batch/v1alpha1"
	schedulinglisters "volcano.sh/apis/pkg/client/listers/scheduling/v1beta1"
)

// stepTimeout limits how long each step of the demo may take.
const stepTimeout = 30 * time.Second

// view has the objects in the demo's namespace, from informers, so that the demo notices expected changes at once.
type view struct {
	pods      corelisters.PodLister
	podGroups schedulinglisters.PodGroupLister
	jobs      batchlisters.JobLister
	// changed contains a value if an object has changed since the last receive from the channel.
	changed chan struct{}
	// dead receives an error when a process of the sandbox ends unexpectedly.
	dead  <-chan error
	close func()
}

// newView starts the view's informers and waits for their initial lists. The view's function close stops the informers.
func newView(ctx context.Context, kube kubernetes.Interface, vc vcclient.Interface, dead <-chan error) (*view, error) {
	ctx, cancel := context.WithCancel(ctx)
	core := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithNamespace(namespace))
	volcano := vcinformers.NewSharedInformerFactoryWithOptions(vc, 0, vcinformers.WithNamespace(namespace))
	v := &view{
		pods:      core.Core().V1().Pods().Lister(),
		podGroups: volcano.Scheduling().V1beta1().PodGroups().Lister(),
		jobs:      volcano.Batch().V1alpha1().Jobs().Lister(),
		changed:   make(chan struct{}, 1),
		dead:      dead,
		close: func() {
			cancel()
			core.Shutdown()
			volcano.Shutdown()
		},
	}
	for _, informer := range []cache.SharedIndexInformer{
		core.Core().V1().Pods().Informer(),
		volcano.Scheduling().V1beta1().PodGroups().Informer(),
		volcano.Batch().V1alpha1().Jobs().Informer(),
	} {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { v.signal() },
			UpdateFunc: func(any, any) { v.signal() },
			DeleteFunc: func(any) { v.signal() },
		}); err != nil {
			v.close()
			return nil, err
		}
	}
	core.Start(ctx.Done())
	volcano.Start(ctx.Done())
	core.WaitForCacheSync(ctx.Done())
	volcano.WaitForCacheSync(ctx.Done())
	return v, ctx.Err()
}

func (v *view) signal() {
	select {
	case v.changed <- struct{}{}:
	default:
	}
}

// await waits until condition returns true, and returns the time since began. It calls condition after every change.
// After a timeout, the error contains the last value of stand, the current state in words.
func (v *view) await(ctx context.Context, began time.Time, what string, condition func() (holds bool, stand string)) (time.Duration, error) {
	timer := time.NewTimer(stepTimeout)
	defer timer.Stop()
	for {
		holds, stand := condition()
		if holds {
			return time.Since(began), nil
		}
		select {
		case <-v.changed:
		case err := <-v.dead:
			return 0, err
		case <-ctx.Done():
			return 0, fmt.Errorf("waiting until %s: %w", what, ctx.Err())
		case <-timer.C:
			return 0, fmt.Errorf("timed out after %s, waiting until %s; %s", stepTimeout, what, stand)
		}
	}
}

// placed returns all pods with the labels of the selector, and a second list with only the pods that have a node.
func (v *view) placed(selector map[string]string) (all, bound []*corev1.Pod) {
	// Listing from an informer's store does not fail.
	all, _ = v.pods.Pods(namespace).List(labels.SelectorFromSet(selector))
	for _, pod := range all {
		if pod.Spec.NodeName != "" {
			bound = append(bound, pod)
		}
	}
	return all, bound
}

// unschedulable returns the message of the pod's condition PodScheduled if the condition is false; otherwise "".
func unschedulable(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// namespace is the namespace of the demo's objects.
const namespace = metav1.NamespaceDefault
