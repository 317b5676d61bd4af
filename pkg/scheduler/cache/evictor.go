// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"volcano.sh/volcano/pkg/scheduler/api"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// evictTimeout bounds each call of an eviction.
const evictTimeout = 15 * time.Second

// evictor evicts a pod: it says why in the pod's status, and deletes it.
//
// The status is written first, and the watch's answer to that makes upstream's cache book the victim as running again,
// until the deletion is seen. A cycle in between would take it for one that is still there, and evict another for the
// same room. So the evictor remembers its victims until their deletion is seen, and snapshots book them as leaving.
type evictor struct {
	cache *Cache

	mu      sync.Mutex
	victims map[types.UID]*v1.Pod
}

var _ vccache.Evictor = (*evictor)(nil)

func newEvictor(c *Cache) *evictor { return &evictor{cache: c, victims: map[types.UID]*v1.Pod{}} }

// Evict evicts the pod; when it returns an error the pod stays. Upstream calls it on a goroutine of its own.
func (e *evictor) Evict(pod *v1.Pod, reason string) error {
	e.remember(pod)
	message := brief.Text("Pod is evicted, because of " + reason)
	e.cache.Recorder.Event(pod, v1.EventTypeWarning, "Evict", message)
	if err := e.explain(pod, message); err != nil {
		logger().Error(err, "Saying on a pod why it is evicted", "pod", pod.Namespace+"/"+pod.Name)
	}
	gone, err := e.delete(pod)
	if gone || err != nil {
		e.forget(pod.UID)
	}
	if err != nil {
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

// delete deletes the pod, by UID, and tries again while that may help. It says whether the pod was gone already.
func (e *evictor) delete(pod *v1.Pod) (gone bool, err error) {
	backoff := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 6}
	var last error
	err = wait.ExponentialBackoff(backoff, func() (bool, error) {
		ctx, cancel := context.WithTimeout(context.Background(), evictTimeout)
		defer cancel()
		last = e.cache.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *metav1.NewPreconditionDeleteOptions(string(pod.UID)))
		switch {
		case last == nil, apierrors.IsNotFound(last), apierrors.IsConflict(last): // a conflict: another pod of that name
			gone = last != nil
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
	return gone, err
}

func (e *evictor) remember(pod *v1.Pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.victims[pod.UID] = pod
}

// forget drops a victim whose deletion is seen, or which stays.
func (e *evictor) forget(uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.victims, uid)
}

// bookVictims books the tasks that are being evicted as leaving, in a snapshot. It forgets those whose pods are gone: a
// deletion that the watch missed is told to nobody.
func (e *evictor) bookVictims(snapshot *api.ClusterInfo) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for uid, pod := range e.victims {
		if e.cache.watched(pod) == nil {
			delete(e.victims, uid)
			continue
		}
		job := snapshot.Jobs[gangOf(pod)]
		if job == nil || job.Tasks[api.TaskID(uid)] == nil {
			continue
		}
		task := job.Tasks[api.TaskID(uid)]
		node := snapshot.Nodes[task.NodeName]
		if task.Status == api.Releasing || node == nil || node.Tasks[api.PodKey(task.Pod)] == nil {
			continue
		}
		if err := job.UpdateTaskStatus(task, api.Releasing); err != nil {
			logger().Error(err, "Booking a pod that is being evicted", "pod", task.Namespace+"/"+task.Name)
			continue
		}
		if err := node.UpdateTask(task); err != nil {
			logger().Error(err, "Booking a pod that is being evicted", "pod", task.Namespace+"/"+task.Name, "node", node.Name)
		}
	}
}
