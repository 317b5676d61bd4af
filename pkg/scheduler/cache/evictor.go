// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// evictTimeout bounds each call of an eviction.
const evictTimeout = 15 * time.Second

// evictor evicts a pod: it says why in the pod's status, and deletes it. The books have the pod as leaving from before the first write until its end
// is seen, whatever the watch shows in between.
type evictor struct {
	cache *Cache
}

func newEvictor(c *Cache) *evictor { return &evictor{cache: c} }

// Evict books the task as leaving and has its pod deleted, unless sessions see only part of the jobs. The pod stays, and is booked so, if it cannot be
// deleted.
func (c *Cache) Evict(task *api.TaskInfo, reason string) error {
	if c.Searching() {
		return errSearching
	}
	pod, group, err := c.books.Pods.Evict(task)
	if err != nil {
		return fmt.Errorf("evicting: %w", err)
	}
	go func() {
		if err := c.evictor.evict(pod, reason); err != nil {
			logger().Error(err, "Evicting a pod")
		}
	}()
	if group != nil {
		c.podGroupEvent(group, v1.EventTypeNormal, "Evict", brief.Text(reason))
	}
	return nil
}

// evict evicts the pod; when it returns an error the pod stays.
func (e *evictor) evict(pod *v1.Pod, reason string) error {
	message := brief.Text("Pod is evicted, because of " + reason)
	e.cache.Recorder.Event(pod, v1.EventTypeWarning, "Evict", message)
	if err := e.explain(pod, message); err != nil {
		logger().Error(err, "Saying on a pod why it is evicted", "pod", pod.Namespace+"/"+pod.Name)
	}
	if err := e.delete(pod); err != nil {
		e.cache.books.Pods.Spare(pod)
		return fmt.Errorf("evicting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// explain writes the conditions by which people and controllers know an evicted pod from a failed one.
func (e *evictor) explain(pod *v1.Pod, message string) error {
	ctx, cancel := context.WithTimeout(context.Background(), evictTimeout)
	defer cancel()
	client := e.cache.kube.CoreV1().Pods(pod.Namespace)
	live, err := client.Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil || live.UID != pod.UID {
		return err
	}
	changed := podutil.UpdatePodCondition(&live.Status, &v1.PodCondition{
		Type: v1.PodReady, Status: v1.ConditionFalse, Reason: "Evict", Message: message,
	})
	changed = podutil.UpdatePodCondition(&live.Status, &v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler,
		Message: live.Spec.SchedulerName + ": makes room for other pods",
	}) || changed
	if !changed {
		return nil
	}
	_, err = client.UpdateStatus(ctx, live, metav1.UpdateOptions{})
	return err
}

// delete deletes the pod, by UID, and tries again while that may help.
func (e *evictor) delete(pod *v1.Pod) error {
	backoff := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 6}
	var last error
	err := wait.ExponentialBackoff(backoff, func() (bool, error) {
		ctx, cancel := context.WithTimeout(context.Background(), evictTimeout)
		defer cancel()
		last = e.cache.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *metav1.NewPreconditionDeleteOptions(string(pod.UID)))
		switch {
		case last == nil, apierrors.IsNotFound(last), apierrors.IsConflict(last): // a conflict: another pod of that name
			return true, nil
		case apierrors.IsInvalid(last):
			return false, last
		default: // also what is forbidden, as all is by an API server that has just started
			return false, nil
		}
	})
	if wait.Interrupted(err) {
		err = last
	}
	return err
}
