// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/books"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
)

// evictTimeout bounds each attempt to delete a pod.
const evictTimeout = 15 * time.Second

// Evictor evicts pods: it has the cause reported on the pod, and deletes the pod. From before the first write
// until the watch shows the pod's end, the pod's task has status Releasing in the books. Other changes that the watch
// shows do not alter this status.
type Evictor struct {
	kube    kubernetes.Interface
	books   *books.Books
	reports *report.Reporter
}

// NewEvictor returns an Evictor for the pods in the books.
func NewEvictor(kube kubernetes.Interface, books *books.Books, reports *report.Reporter) *Evictor {
	return &Evictor{kube: kube, books: books, reports: reports}
}

// Evict sets the task's status in the books to Releasing, and deletes its pod on another goroutine. If the pod cannot be
// deleted, the task gets its former status again.
func (e *Evictor) Evict(task *api.TaskInfo, reason string) error {
	pod, group, err := e.books.Pods.Evict(task)
	if err != nil {
		return fmt.Errorf("evicting: %w", err)
	}
	go func() {
		if err := e.evict(pod, reason); err != nil {
			logger().Error(err, "Evicting a pod failed")
		}
	}()
	if group != nil {
		e.reports.Evicting(group, reason)
	}
	return nil
}

// evict reports the cause of the eviction and deletes the pod. If it returns an error, the pod was not deleted.
func (e *Evictor) evict(pod *v1.Pod, reason string) error {
	e.reports.Evicted(pod, reason)
	if err := e.delete(pod); err != nil {
		e.books.Pods.Spare(pod)
		return fmt.Errorf("evicting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// isGone reports whether the pod, by UID, no longer exists. It returns false if the API server does not answer.
func (e *Evictor) isGone(ctx context.Context, pod *v1.Pod) bool {
	live, err := e.kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && live.UID != pod.UID
}

// delete deletes the pod, by UID, and retries errors that may pass.
func (e *Evictor) delete(pod *v1.Pod) error {
	backoff := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 6}
	var last error
	err := wait.ExponentialBackoff(backoff, func() (bool, error) {
		ctx, cancel := context.WithTimeout(context.Background(), evictTimeout)
		defer cancel()
		last = e.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *metav1.NewPreconditionDeleteOptions(string(pod.UID)))
		switch {
		case last == nil, apierrors.IsNotFound(last):
			return true, nil
		case apierrors.IsConflict(last): // usually because a newer pod has the name
			return e.isGone(ctx, pod), nil
		case apierrors.IsInvalid(last):
			return false, last
		default: // all other errors are retried, even Forbidden: an API server returns it for each request right after its start
			return false, nil
		}
	})
	if wait.Interrupted(err) {
		err = last
	}
	return err
}
