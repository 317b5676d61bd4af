// SPDX-License-Identifier: Apache-2.0

package statuswriter

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/apiwrite"
	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// desiredPod is the condition and the nominated node that the scheduler wants to write to a pod.
type desiredPod struct {
	uid       types.UID
	gang      api.JobID
	condition *v1.PodCondition
	// nominated is the nominated node to be written; empty if the pod keeps its nominated node.
	nominated string
}

// desiredQueue is the status that the scheduler wants to write to a queue. For the root queue it also has the spec.
type desiredQueue struct {
	allocated v1.ResourceList
	root      *v1beta1.QueueSpec
}

// PutPod submits the pod's condition and its nominated node. They are written after the delay, or at once if the pod
// has a nominated node.
func (w *Writer) PutPod(pod *v1.Pod, delay time.Duration) {
	key := objectKey{podKind, pod.Namespace, pod.Name}
	desired := &desiredPod{
		uid: pod.UID, gang: api.JobID(pod.Namespace + "/" + pod.Annotations[v1beta1.KubeGroupNameAnnotationKey]), nominated: nomination(pod),
	}
	if _, condition := podutil.GetPodCondition(&pod.Status, v1.PodScheduled); condition != nil {
		desired.condition = condition.DeepCopy()
		desired.condition.Message = brief.Text(condition.Message)
	}
	w.mu.Lock()
	w.pods[key] = desired
	w.mu.Unlock()
	if desired.nominated != "" {
		delay = 0
	}
	w.queue.AddAfter(key, delay)
}

// PatchPodConditions changes conditions of the pod, by UID, in one request. change gets a copy of the pod as the watch shows it.
// It writes nothing if change leaves all conditions unchanged. With upstream's permissions, the scheduler may not patch the status,
// so it updates the status instead. It is for pods that have a node, for which the workers write nothing.
func (w *Writer) PatchPodConditions(pod *v1.Pod, change func(status *v1.PodStatus)) error {
	status := v1.PodStatus{Conditions: slices.Clone(pod.Status.Conditions)}
	change(&status)
	changed := slices.DeleteFunc(status.Conditions, func(c v1.PodCondition) bool { return slices.Contains(pod.Status.Conditions, c) })
	if len(changed) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID}, // a pod with another UID is not changed
		"status":   map[string]any{"conditions": changed},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	client := w.deps.Kube.CoreV1().Pods(pod.Namespace)
	_, err = client.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if !apierrors.IsForbidden(err) {
		return err
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		live, err := client.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil || live.UID != pod.UID {
			return err
		}
		change(&live.Status)
		_, err = client.UpdateStatus(ctx, live, metav1.UpdateOptions{})
		return err
	})
}

// nomination returns the node to which a session nominated the pod. It returns an empty name for the node in the pod's
// own node selector: the snapshot, not a session, nominates that node.
func nomination(pod *v1.Pod) string {
	if pod.Status.NominatedNodeName == pod.Spec.NodeSelector[v1.LabelHostname] {
		return ""
	}
	return pod.Status.NominatedNodeName
}

func (w *Writer) writePod(ctx context.Context, key objectKey) error {
	w.mu.Lock()
	desired, ok := w.pods[key]
	w.mu.Unlock()
	if !ok {
		return nil
	}
	if err := w.applyPod(ctx, key, desired); err != nil {
		return fmt.Errorf("updating the status of pod %s/%s: %w", key.namespace, key.name, err)
	}
	drop(w, w.pods, key, desired)
	return nil
}

func (w *Writer) applyPod(ctx context.Context, key objectKey, desired *desiredPod) error {
	current, err := w.deps.Pods.Pods(key.namespace).Get(key.name)
	if err != nil || current.UID != desired.uid || current.Spec.NodeName != "" || !w.deps.Reports(desired.gang, desired.uid) {
		return nil // the pod was deleted, is bound or is being bound: the condition is no longer needed
	}
	status := current.Status.DeepCopy()
	changed := desired.condition != nil && podutil.UpdatePodCondition(status, desired.condition.DeepCopy())
	if desired.nominated != "" && desired.nominated != status.NominatedNodeName {
		status.NominatedNodeName, changed = desired.nominated, true
	}
	if !changed {
		return nil
	}
	wanted := desired.digest()
	if w.rejected.before(key, current, wanted) {
		return nil
	}
	pod := w.deps.OwnPod(current)
	pod.Status = *status
	_, err = w.deps.Kube.CoreV1().Pods(key.namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return w.unlessGivenUp(key, current, wanted, err)
}

// digest returns a digest of the desired condition and nominated node. It identifies a status that was rejected.
func (desired *desiredPod) digest() uint64 {
	if desired.condition == nil {
		return apiwrite.Digest(desired.nominated)
	}
	return apiwrite.Digest(desired.nominated, desired.condition.Status, desired.condition.Reason, desired.condition.Message)
}

// drop removes a desired status that was written or given up. It does nothing if a newer desired status has replaced
// it.
func drop[W any](w *Writer, all map[objectKey]*W, key objectKey, desired *W) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if all[key] == desired {
		delete(all, key)
	}
}

// PutQueue submits the allocated resources of the queue, which are written a moment later. root has the deserved and
// guaranteed resources of the root queue; nil if they stay.
func (w *Writer) PutQueue(name string, allocated v1.ResourceList, root *v1beta1.QueueSpec) {
	key, desired := objectKey{queueKind, "", name}, &desiredQueue{allocated, root}
	w.mu.Lock()
	if before, ok := w.queues[key]; ok && desired.root == nil {
		desired.root = before.root
	}
	w.queues[key] = desired
	w.mu.Unlock()
	w.queue.AddAfter(key, Settle)
}

func (w *Writer) writeQueue(ctx context.Context, key objectKey) error {
	w.mu.Lock()
	desired, ok := w.queues[key]
	w.mu.Unlock()
	if !ok {
		return nil
	}
	if err := w.applyQueue(ctx, key, desired); err != nil {
		return fmt.Errorf("updating queue %s: %w", key.name, err)
	}
	drop(w, w.queues, key, desired)
	return nil
}

func (w *Writer) applyQueue(ctx context.Context, key objectKey, desired *desiredQueue) error {
	current, err := w.deps.Queues.Get(key.name)
	if err != nil {
		return nil // deleted
	}
	wanted := apiwrite.Digest(desired.allocated, desired.root)
	if w.rejected.before(key, current, wanted) {
		return nil
	}
	client := w.deps.Volcano.SchedulingV1beta1().Queues()
	if root := desired.root; root != nil && !(equality.Semantic.DeepEqual(current.Spec.Deserved, root.Deserved) &&
		equality.Semantic.DeepEqual(current.Spec.Guarantee.Resource, root.Guarantee.Resource)) {
		updated := current.DeepCopy()
		updated.Spec.Deserved, updated.Spec.Guarantee.Resource = root.Deserved, root.Guarantee.Resource
		written, err := client.Update(ctx, updated, metav1.UpdateOptions{})
		if err != nil {
			return w.unlessGivenUp(key, current, wanted, err)
		}
		current = written
	}
	if equality.Semantic.DeepEqual(current.Status.Allocated, desired.allocated) {
		return nil
	}
	updated := current.DeepCopy()
	updated.Status.Allocated = desired.allocated
	_, err = client.UpdateStatus(ctx, updated, metav1.UpdateOptions{})
	return w.unlessGivenUp(key, current, wanted, err)
}
