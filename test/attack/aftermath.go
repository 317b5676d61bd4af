// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
)

// tidyTimeout is the time limit for the deletion of the tenant's objects.
const tidyTimeout = time.Minute

// tenantKinds are the kinds that attacks create. Owners precede the objects that they own.
var tenantKinds = []schema.GroupVersionResource{
	{Group: "batch.volcano.sh", Version: "v1alpha1", Resource: "jobs"},
	{Group: "bus.volcano.sh", Version: "v1alpha1", Resource: "commands"},
	sigsPodGroups,
	{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "podgroups"},
	{Version: "v1", Resource: "pods"},
	{Group: "resource.k8s.io", Version: "v1", Resource: "resourceclaims"},
	{Version: "v1", Resource: "persistentvolumeclaims"},
	{Version: "v1", Resource: "services"},
	{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
	{Version: "v1", Resource: "configmaps"},
}

// tidyUp deletes the tenant's objects, and its controllers' objects, until none is left.
func (s *testbed) tidyUp(ctx context.Context) error {
	return eventually(ctx, tidyTimeout, func() error {
		left := 0
		for _, kind := range tenantKinds {
			n, err := s.deleteAll(ctx, kind)
			if err != nil {
				return fmt.Errorf("deleting the tenant's %s: %w", kind.Resource, err)
			}
			left += n
		}
		if left > 0 {
			return fmt.Errorf("%d objects of the tenant are still there", left)
		}
		return nil
	})
}

// deleteAll deletes the tenant's objects of a kind and returns their number. It removes the finalizers of objects
// that are being deleted.
func (s *testbed) deleteAll(ctx context.Context, kind schema.GroupVersionResource) (int, error) {
	objects := s.dyn.Resource(kind).Namespace(tenantNamespace)
	there, err := objects.List(ctx, metav1.ListOptions{Limit: 100})
	if err != nil {
		return 0, err
	}
	items := slices.DeleteFunc(there.Items, func(o unstructured.Unstructured) bool { return o.GetName() == "kube-root-ca.crt" })
	if len(items) == 0 {
		return 0, nil
	}
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	if kind.Resource == "services" { // Not all Kubernetes versions can delete a collection of them.
		for _, o := range items {
			if err := objects.Delete(ctx, o.GetName(), now); err != nil {
				return 0, err
			}
		}
		return len(items), nil
	}
	for _, o := range items {
		if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) > 0 {
			// The object may have been deleted in the meantime.
			_, _ = objects.Patch(ctx, o.GetName(), types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{})
		}
	}
	return len(items), objects.DeleteCollection(ctx, now, metav1.ListOptions{})
}

// aftermath returns the differences from the state before the attack: processes, queues, nodes and the victim's
// resident pods. It repairs them, so each effect is reported once.
func (s *testbed) aftermath(ctx context.Context) (found []string) {
	select {
	case err := <-s.cp.Dead():
		found = append(found, fmt.Sprintf("a process ended: %v", err))
	default:
	}
	for _, check := range []func(context.Context) ([]string, error){s.closedQueues, s.cordonedNodes, s.stoppedPods} {
		more, err := check(ctx)
		if err != nil {
			more = append(more, err.Error())
		}
		found = append(found, more...)
	}
	return found
}

func (s *testbed) closedQueues(ctx context.Context) (found []string, err error) {
	queues := s.vc.SchedulingV1beta1().Queues()
	for _, name := range []string{victimQueue, limitedQueue, controlplane.DefaultQueue, "root"} {
		queue, err := queues.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return found, err
		}
		if queue.Status.State == v1beta1.QueueStateOpen {
			continue
		}
		found = append(found, fmt.Sprintf("queue %s is %s", name, queue.Status.State))
		queue.Status.State = v1beta1.QueueStateOpen
		if _, err := queues.UpdateStatus(ctx, queue, metav1.UpdateOptions{}); err != nil {
			return found, err
		}
	}
	return found, nil
}

func (s *testbed) cordonedNodes(ctx context.Context) (found []string, err error) {
	nodes, err := s.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if !node.Spec.Unschedulable && len(node.Spec.Taints) == 0 {
			continue
		}
		found = append(found, fmt.Sprintf("node %s takes no pods", node.Name))
		patch := []byte(`{"spec": {"unschedulable": null, "taints": null}}`)
		if _, err := s.kube.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return found, err
		}
	}
	return found, nil
}

// stoppedPods returns resident pods that no longer run, and forgets them.
func (s *testbed) stoppedPods(ctx context.Context) (found []string, err error) {
	pods, err := s.kube.CoreV1().Pods(victimNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	running := map[types.UID]bool{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		running[pod.UID] = pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning
	}
	for uid, name := range s.victim.resident {
		if !running[uid] {
			found = append(found, fmt.Sprintf("pod %s of the victim was stopped", name))
			delete(s.victim.resident, uid)
		}
	}
	slices.SortFunc(found, strings.Compare)
	return found, nil
}
