// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
)

const (
	// settleTime is how long the deletion of a spec's objects may take.
	settleTime = 4 * time.Second
	// cleanTime is how long the deletion of objects that a spec left may take. Pods bound to nodes that do not exist
	// wait for the garbage collector of pods.
	cleanTime = 2 * time.Minute
)

var (
	namespaceResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	nodeResource      = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	queueResource     = schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "queues"}
)

// clusterResources are the kinds without a namespace that specs create and change.
var clusterResources = []schema.GroupVersionResource{
	namespaceResource, nodeResource, queueResource,
	{Group: "topology.volcano.sh", Version: "v1alpha1", Resource: "hypernodes"},
	{Group: "scheduling.k8s.io", Version: "v1", Resource: "priorityclasses"},
	{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"},
	{Version: "v1", Resource: "persistentvolumes"},
}

// object identifies one of these objects.
type object struct {
	schema.GroupVersionResource
	name string
}

func (o object) String() string { return o.Resource + "/" + o.name }

// snapshot has the objects of clusterResources, with the fields that a spec may have changed.
type snapshot map[object]*unstructured.Unstructured

func (w *testCluster) look(ctx context.Context) (snapshot, error) {
	found := snapshot{}
	for _, resource := range clusterResources {
		list, err := w.client.Resource(resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			found[object{resource, list.Items[i].GetName()}] = &list.Items[i]
		}
	}
	return found, nil
}

// restore restores the state of the cluster before the first spec, and returns a description of the objects left
// behind.
func (w *testCluster) restore(ctx context.Context) (string, error) {
	if err := w.restoreConf(ctx); err != nil {
		return "", err
	}
	var left []object
	gone := func(ctx context.Context) (bool, error) {
		now, err := w.look(ctx)
		if err != nil {
			return false, err
		}
		left = slices.SortedFunc(maps.Keys(now), func(a, b object) int { return strings.Compare(a.String(), b.String()) })
		left = slices.DeleteFunc(left, func(o object) bool { return w.start[o] != nil && sameSpec(w.start[o], now[o]) })
		return len(left) == 0, nil
	}
	const every = 200 * time.Millisecond
	if err := wait.PollUntilContextTimeout(ctx, every, settleTime, true, gone); err == nil || !wait.Interrupted(err) {
		return "", err
	}
	told := fmt.Sprint(left)
	err := wait.PollUntilContextTimeout(ctx, every, cleanTime, true, func(ctx context.Context) (bool, error) {
		if ok, err := gone(ctx); ok || err != nil {
			return ok, err
		}
		for _, o := range left {
			if err := w.putBack(ctx, o); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				w.note("putting %s back: %v", o, err)
			}
		}
		return false, nil
	})
	if err != nil {
		return told, fmt.Errorf("what the spec left is not gone: %v: %w", left, err)
	}
	return told, nil
}

// sameSpec compares the fields that specs change in objects that existed before: nodes and the default queue. The
// scheduler owns the root queue's spec.
func sameSpec(a, b *unstructured.Unstructured) bool {
	if a.GetKind() != "Node" && a.GetName() != controlplane.DefaultQueue {
		return true
	}
	return equality.Semantic.DeepEqual(a.Object["spec"], b.Object["spec"]) && maps.Equal(a.GetLabels(), b.GetLabels())
}

// putBack deletes an object that did not exist before, and restores the former spec and labels of one that did.
func (w *testCluster) putBack(ctx context.Context, o object) error {
	client := w.client.Resource(o.GroupVersionResource)
	if before := w.start[o]; before != nil {
		now, err := client.Get(ctx, o.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now.SetLabels(before.GetLabels())
		now.Object["spec"] = before.DeepCopy().Object["spec"]
		_, err = client.Update(ctx, now, metav1.UpdateOptions{})
		return err
	}
	switch o.GroupVersionResource {
	case namespaceResource:
		// Containers on nodes that do not exist are never ended.
		err := w.kube.CoreV1().Pods(o.name).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{})
		if err != nil {
			return err
		}
	case queueResource:
		// The webhook allows the deletion of closed queues only.
		closed := []byte(`{"status":{"state":"Closed"}}`)
		if _, err := client.Patch(ctx, o.name, types.MergePatchType, closed, metav1.PatchOptions{}, "status"); err != nil {
			return err
		}
	}
	return client.Delete(ctx, o.name, metav1.DeleteOptions{})
}

func (w *testCluster) restoreConf(ctx context.Context) error {
	client := w.kube.CoreV1().ConfigMaps(controlplane.Namespace)
	cm, err := client.Get(ctx, confMap, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if cm.Data[confKey] == w.conf {
		return nil
	}
	cm.Data = map[string]string{confKey: w.conf}
	_, err = client.Update(ctx, cm, metav1.UpdateOptions{})
	return err
}
