// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// Kinds of a gang's objects.
const (
	podKind   = "pods"
	groupKind = "podgroups"
	claimKind = "resourceclaims"
)

// watch follows the victim's objects with plain watches of its namespace. A scheduler cannot know of an object before
// the watches show it. A pod is bound when they show it on a node.
func (v *victim) watch(ctx context.Context) error {
	core := v.kube.CoreV1().RESTClient()
	onNode := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	}
	all := func(*metav1.ListOptions) {}
	for _, w := range []struct {
		getter  cache.Getter
		kind    string
		options func(*metav1.ListOptions)
		object  runtime.Object
		added   func(key string)
	}{
		{core, podKind, onNode, &corev1.Pod{}, v.bound},
		{core, podKind, all, &corev1.Pod{}, v.shown},
		{v.vc.SchedulingV1beta1().RESTClient(), groupKind, all, &v1beta1.PodGroup{}, v.shown},
		{v.kube.ResourceV1().RESTClient(), claimKind, all, &resourcev1.ResourceClaim{}, v.shown},
	} {
		_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
			ListerWatcher: cache.NewFilteredListWatchFromClient(w.getter, w.kind, victimNamespace, w.options),
			ObjectType:    w.object,
			Handler: cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
				if object, ok := obj.(metav1.Object); ok {
					w.added(w.kind + "/" + object.GetName())
				}
			}},
		})
		go informer.RunWithContext(ctx)
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return errors.New("the watch on the victim's " + w.kind + " did not start")
		}
	}
	return nil
}

func (v *victim) bound(key string) {
	now := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	if b := v.binds[key]; b != nil {
		delete(v.binds, key)
		if b.left--; b.left == 0 {
			b.at = now
			close(b.done)
		}
	}
}

func (v *victim) shown(key string) {
	now := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	if b := v.shows[key]; b != nil {
		delete(v.shows, key)
		b.unseen--
		b.shown = now
	}
}

// await begins to wait for the gang, and returns its pods.
func (v *victim) await(g gang) (*waiting, []*corev1.Pod) {
	pods := make([]*corev1.Pod, g.size)
	for i := range pods {
		pods[i] = g.member(i)
	}
	b := &waiting{left: g.size, done: make(chan struct{})}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, key := range keysOf(g) {
		v.shows[key] = b
		b.unseen++
	}
	for _, pod := range pods {
		v.binds[podKind+"/"+pod.Name] = b
	}
	return b, pods
}

// forget ends the wait for the gang.
func (v *victim) forget(g gang) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, key := range keysOf(g) {
		delete(v.shows, key)
		delete(v.binds, key)
	}
}

// keysOf returns the keys of the gang's objects, by kind and name.
func keysOf(g gang) []string {
	keys := []string{groupKind + "/" + g.name}
	for i := range g.size {
		pod := g.member(i)
		keys = append(keys, podKind+"/"+pod.Name)
		if len(pod.Spec.ResourceClaims) > 0 {
			keys = append(keys, claimKind+"/"+pod.Name)
		}
	}
	return keys
}
