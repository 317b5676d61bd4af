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

// handler calls do with each version of an object, the one that is gone included; with changes that are not the same.
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

// resynced is true where there is no other version.
func resynced[T any](was, is *T) bool { return was == is }

// volcanoHandler takes up the gangs that a Volcano PodGroup is of, and those whose pods are in one that upstream made.
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

// enqueueParked takes up the gangs without a Volcano PodGroup: they may have been waiting for PodGroups that were not served.
func (c *controller) enqueueParked() {
	for _, key := range c.pods.GetIndexer().ListIndexFuncValues(byGang) {
		namespace, name, _ := strings.Cut(key, "/")
		if _, err := c.groups.PodGroups(namespace).Get(name); err != nil {
			c.enqueue(namespace, name)
		}
	}
}

// indexed are the pods that the index has under that name.
func (c *controller) indexed(index, namespace, name string) []*corev1.Pod {
	objects, err := c.pods.GetIndexer().ByIndex(index, namespace+"/"+name)
	if err != nil {
		return nil // there is no such index, which initialize would have told
	}
	pods := make([]*corev1.Pod, len(objects))
	for i, object := range objects {
		pods[i] = object.(*corev1.Pod)
	}
	return pods
}
