// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/core"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// Claims reports whether another controller creates the pod's PodGroup.
type Claims func(*corev1.Pod) bool

// Upstream's controller reads pods in three ways: through its informer's handler, its lister and, for pods of a
// ReplicaSet, a list call. The types below hide pods that another controller claims, for all three ways.

type factory struct {
	informers.SharedInformerFactory
	claims Claims
}

func (f *factory) Core() core.Interface {
	return &coreGroup{f.SharedInformerFactory.Core(), f.claims}
}

type coreGroup struct {
	core.Interface
	claims Claims
}

func (g *coreGroup) V1() coreinformers.Interface { return &coreV1{g.Interface.V1(), g.claims} }

type coreV1 struct {
	coreinformers.Interface
	claims Claims
}

func (v *coreV1) Pods() coreinformers.PodInformer { return &podInformer{v.Interface.Pods(), v.claims} }

type podInformer struct {
	coreinformers.PodInformer
	claims Claims
}

func (i *podInformer) Informer() cache.SharedIndexInformer {
	return &informer{i.PodInformer.Informer(), i.claims}
}

func (i *podInformer) Lister() corelisters.PodLister {
	return &lister{i.PodInformer.Lister(), i.claims}
}

type informer struct {
	cache.SharedIndexInformer
	claims Claims
}

func (i *informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandler(cache.FilteringResourceEventHandler{
		FilterFunc: func(object any) bool {
			pod, ok := object.(*corev1.Pod)
			return !ok || !i.claims(pod)
		},
		Handler: handler,
	})
}

type lister struct {
	corelisters.PodLister
	claims Claims
}

func (l *lister) List(selector labels.Selector) ([]*corev1.Pod, error) {
	pods, err := l.PodLister.List(selector)
	return slices.DeleteFunc(pods, l.claims), err
}

func (l *lister) Pods(namespace string) corelisters.PodNamespaceLister {
	return &namespaceLister{l.PodLister.Pods(namespace), l.claims}
}

type namespaceLister struct {
	corelisters.PodNamespaceLister
	claims Claims
}

func (l *namespaceLister) List(selector labels.Selector) ([]*corev1.Pod, error) {
	pods, err := l.PodNamespaceLister.List(selector)
	return slices.DeleteFunc(pods, l.claims), err
}

// Get returns NotFound for a pod that another controller claims. Such a pod may have been claimed after upstream's
// handler was called for it.
func (l *namespaceLister) Get(name string) (*corev1.Pod, error) {
	pod, err := l.PodNamespaceLister.Get(name)
	if err == nil && l.claims(pod) {
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
	}
	return pod, err
}

type kubeClient struct {
	kubernetes.Interface
	claims Claims
}

func (c *kubeClient) CoreV1() typedcore.CoreV1Interface {
	return &coreClient{c.Interface.CoreV1(), c.claims}
}

type coreClient struct {
	typedcore.CoreV1Interface
	claims Claims
}

func (c *coreClient) Pods(namespace string) typedcore.PodInterface {
	return &pods{c.CoreV1Interface.Pods(namespace), c.claims}
}

type pods struct {
	typedcore.PodInterface
	claims Claims
}

func (p *pods) List(ctx context.Context, opts metav1.ListOptions) (*corev1.PodList, error) {
	list, err := p.PodInterface.List(ctx, opts)
	if list != nil {
		list.Items = slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return p.claims(&pod) })
	}
	return list, err
}
