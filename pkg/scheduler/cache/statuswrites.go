// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/apiwrite"
	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// podWish is what a pod is to be told.
type podWish struct {
	uid       types.UID
	gang      api.JobID
	condition *v1.PodCondition
	// nominated is empty when the pod keeps the nomination it has.
	nominated string
}

// queueWish is what was decided for a queue's status and, for the root queue, its spec.
type queueWish struct {
	allocated v1.ResourceList
	root      *v1beta1.QueueSpec
}

func (w *statusWriter) wishPod(pod *v1.Pod, delay time.Duration) {
	key := statusKey{podKind, pod.Namespace, pod.Name}
	wish := &podWish{
		uid: pod.UID, gang: api.JobID(pod.Namespace + "/" + pod.Annotations[v1beta1.KubeGroupNameAnnotationKey]), nominated: nomination(pod),
	}
	if _, condition := podutil.GetPodCondition(&pod.Status, v1.PodScheduled); condition != nil {
		wish.condition = condition.DeepCopy()
		wish.condition.Message = brief.Text(condition.Message)
	}
	w.mu.Lock()
	w.pods[key] = wish
	w.mu.Unlock()
	if wish.nominated != "" {
		delay = 0
	}
	w.queue.AddAfter(key, delay)
}

// nomination is the node a session nominated the pod to. The node the pod names itself is not one: the snapshot put
// it there.
func nomination(pod *v1.Pod) string {
	if pod.Status.NominatedNodeName == namedNode(pod) {
		return ""
	}
	return pod.Status.NominatedNodeName
}

func (w *statusWriter) writePod(ctx context.Context, key statusKey) error {
	w.mu.Lock()
	wish, ok := w.pods[key]
	w.mu.Unlock()
	if !ok {
		return nil
	}
	if err := w.applyPod(ctx, key, wish); err != nil {
		return fmt.Errorf("updating the status of pod %s/%s: %w", key.namespace, key.name, err)
	}
	drop(w, w.pods, key, wish)
	return nil
}

func (w *statusWriter) applyPod(ctx context.Context, key statusKey, wish *podWish) error {
	current, err := w.cache.SharedInformerFactory().Core().V1().Pods().Lister().Pods(key.namespace).Get(key.name)
	if err != nil || current.UID != wish.uid || current.Spec.NodeName != "" || !w.cache.isPending(wish) && !w.cache.delays.tells(wish.uid) {
		return nil // gone, bound, or being bound: nobody is interested in why it was not
	}
	status := current.Status.DeepCopy()
	changed := wish.condition != nil && podutil.UpdatePodCondition(status, wish.condition.DeepCopy())
	if wish.nominated != "" && wish.nominated != status.NominatedNodeName {
		status.NominatedNodeName, changed = wish.nominated, true
	}
	if !changed {
		return nil
	}
	wanted := wish.digest()
	if w.refused.before(key, current, wanted) {
		return nil
	}
	w.cache.SchedulerCache.Mutex.Lock()
	pod := ownPod(current)
	w.cache.SchedulerCache.Mutex.Unlock()
	pod.Status = *status
	_, err = w.cache.kube.CoreV1().Pods(key.namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return w.unlessGivenUp(key, current, wanted, err)
}

// digest stands for what is wished.
func (wish *podWish) digest() uint64 {
	if wish.condition == nil {
		return apiwrite.Digest(wish.nominated)
	}
	return apiwrite.Digest(wish.nominated, wish.condition.Status, wish.condition.Reason, wish.condition.Message)
}

// isPending says whether the cache has the pod as a task that waits to be placed.
func (c *Cache) isPending(wish *podWish) bool {
	c.SchedulerCache.Mutex.Lock()
	defer c.SchedulerCache.Mutex.Unlock()
	job, ok := c.Jobs[wish.gang]
	if !ok {
		return false
	}
	task, ok := job.Tasks[api.TaskID(wish.uid)]
	return ok && task.Status == api.Pending
}

// drop forgets a wish that was seen to, unless a newer one has taken its place.
func drop[W any](w *statusWriter, wishes map[statusKey]*W, key statusKey, wish *W) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if wishes[key] == wish {
		delete(wishes, key)
	}
}

func (w *statusWriter) wishQueue(name string, wish *queueWish) {
	key := statusKey{queueKind, "", name}
	w.mu.Lock()
	if before, ok := w.queues[key]; ok && wish.root == nil {
		wish.root = before.root
	}
	w.queues[key] = wish
	w.mu.Unlock()
	w.queue.AddAfter(key, settle)
}

func (w *statusWriter) writeQueue(ctx context.Context, key statusKey) error {
	w.mu.Lock()
	wish, ok := w.queues[key]
	w.mu.Unlock()
	if !ok {
		return nil
	}
	if err := w.applyQueue(ctx, key, wish); err != nil {
		return fmt.Errorf("updating queue %s: %w", key.name, err)
	}
	drop(w, w.queues, key, wish)
	return nil
}

func (w *statusWriter) applyQueue(ctx context.Context, key statusKey, wish *queueWish) error {
	current, err := w.cache.queues.Get(key.name)
	if err != nil {
		return nil // deleted
	}
	wanted := apiwrite.Digest(wish.allocated, wish.root)
	if w.refused.before(key, current, wanted) {
		return nil
	}
	client := w.cache.vc.SchedulingV1beta1().Queues()
	if root := wish.root; root != nil && !(equality.Semantic.DeepEqual(current.Spec.Deserved, root.Deserved) &&
		equality.Semantic.DeepEqual(current.Spec.Guarantee.Resource, root.Guarantee.Resource)) {
		updated := current.DeepCopy()
		updated.Spec.Deserved, updated.Spec.Guarantee.Resource = root.Deserved, root.Guarantee.Resource
		written, err := client.Update(ctx, updated, metav1.UpdateOptions{})
		if err != nil {
			return w.unlessGivenUp(key, current, wanted, err)
		}
		current = written
	}
	if equality.Semantic.DeepEqual(current.Status.Allocated, wish.allocated) {
		return nil
	}
	updated := current.DeepCopy()
	updated.Status.Allocated = wish.allocated
	_, err = client.UpdateStatus(ctx, updated, metav1.UpdateOptions{})
	return w.unlessGivenUp(key, current, wanted, err)
}
