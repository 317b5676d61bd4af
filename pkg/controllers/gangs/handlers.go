// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/coscheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
)

// handler returns an event handler that calls do with each added or deleted object. After an update it calls do with
// the former version and with the new version, unless same reports that nothing relevant has changed.
func handler[T any](same func(was, is *T) bool, do func(*T)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { do(object.(*T)) },
		UpdateFunc: func(before, after any) {
			was, is := before.(*T), after.(*T)
			if !same(was, is) {
				do(was)
				do(is)
			}
		},
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = tombstone.Obj
			}
			if was, ok := object.(*T); ok {
				do(was)
			}
		},
	}
}

func (c *controller) podHandler() cache.ResourceEventHandler {
	same := func(was, is *corev1.Pod) bool {
		return was.UID == is.UID && was.Spec.NodeName == is.Spec.NodeName && was.Status.Phase == is.Status.Phase &&
			(was.DeletionTimestamp == nil) == (is.DeletionTimestamp == nil) &&
			equality.Semantic.DeepEqual(was.Labels, is.Labels) && equality.Semantic.DeepEqual(was.Annotations, is.Annotations) &&
			equality.Semantic.DeepEqual(was.OwnerReferences, is.OwnerReferences)
	}
	return handler(same, func(pod *corev1.Pod) {
		if name := nameOf(pod); name != "" && c.ours(pod) {
			c.enqueue(pod.Namespace, name)
		}
	})
}

// resynced reports whether an update is only a resync of the informer, which passes the same object twice.
func resynced[T any](was, is *T) bool { return was == is }

// volcanoHandler returns a handler of Volcano PodGroups. It enqueues the gang of a PodGroup and, for a PodGroup that
// upstream's controller created for pods, the gangs that these pods name.
func (c *controller) volcanoHandler() cache.ResourceEventHandler {
	return handler(resynced, func(group *v1beta1.PodGroup) {
		if group.Annotations[gangs.SourceAnnotation] != "" || len(c.indexed(byGang, group.Namespace, group.Name)) > 0 {
			c.enqueue(group.Namespace, group.Name)
		}
		for _, pod := range c.indexed(byOwnGroup, group.Namespace, group.Name) {
			c.enqueue(pod.Namespace, nameOf(pod))
		}
	})
}

func (c *controller) sourceHandler() cache.ResourceEventHandler {
	return handler(resynced, func(group *v1alpha1.PodGroup) { c.enqueue(group.Namespace, group.Name) })
}

// enqueueParked enqueues the gangs that have no Volcano PodGroup. They may have waited for PodGroups of an API group
// that the API server did not serve before.
func (c *controller) enqueueParked() {
	for _, key := range c.pods.GetIndexer().ListIndexFuncValues(byGang) {
		namespace, name, _ := strings.Cut(key, "/")
		if _, err := c.groups.PodGroups(namespace).Get(name); err != nil {
			c.enqueue(namespace, name)
		}
	}
}

// indexed returns the pods that the given index has for namespace/name.
func (c *controller) indexed(index, namespace, name string) []*corev1.Pod {
	objects, err := c.pods.GetIndexer().ByIndex(index, namespace+"/"+name)
	if err != nil {
		return nil // the pod informer lacks the index: initialize has already reported why
	}
	pods := make([]*corev1.Pod, len(objects))
	for i, object := range objects {
		pods[i] = object.(*corev1.Pod)
	}
	return pods
}
