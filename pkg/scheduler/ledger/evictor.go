// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/books"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
)

// A pod is deleted with deleteTries attempts of at most deleteTimeout each, and evicted through the API with askTries attempts of at
// most askTimeout. The API server may ask to wait for 10 s, because a PodDisruptionBudget was just changed, and client-go does so.
// The other pods of a plan wait meanwhile, and count as soon to be gone. After a forbidden eviction, the API server is asked once
// about this scheduler's permission, for at most askTimeout.
const (
	deleteTries   = 6
	deleteTimeout = 15 * time.Second
	askTries      = 3
	askTimeout    = 3 * time.Second
)

// Evictor evicts pods: it has the cause reported on the pod, and deletes the pod. From before the first write
// until the watch shows the pod's end, the pod's task has status Releasing in the books. Other changes that the watch
// shows do not alter this status.
type Evictor struct {
	kube       kubernetes.Interface
	books      *books.Books
	reports    *report.Reporter
	calls      calls
	permission permission
}

// NewEvictor returns an Evictor for the pods in the books.
func NewEvictor(kube kubernetes.Interface, books *books.Books, reports *report.Reporter) *Evictor {
	return &Evictor{kube: kube, books: books, reports: reports, permission: permission{kube: kube}}
}

// Victim is a task to be evicted.
type Victim struct {
	Task   *api.TaskInfo
	Reason string
	// For is the PodGroup of the gang that takes the task's place; nil if it is not known.
	For *api.PodGroup
	// Protected reports whether the API server is asked about the eviction, because of a PodDisruptionBudget.
	Protected bool
}

// Evict sets the task's status in the books to Releasing, and deletes its pod later, on another goroutine. If the pod cannot be
// deleted, the task gets its former status again.
func (e *Evictor) Evict(task *api.TaskInfo, reason string) error {
	return e.EvictTogether([]Victim{{Task: task, Reason: reason}})
}

// EvictTogether sets the tasks' statuses in the books to Releasing, and evicts their pods later, on other goroutines. After an
// error nothing has changed. The API server is asked about the protected pods first, one after the other. If a pod cannot be
// evicted, the pods whose eviction has not begun stay, and their tasks get their former statuses again.
func (e *Evictor) EvictTogether(all []Victim) error {
	b := &batch{of: e}
	for _, of := range all {
		pod, group, err := e.books.Pods.Evict(of.Task)
		if err != nil {
			for _, v := range b.all() {
				e.books.Pods.Spare(v.pod)
			}
			return fmt.Errorf("evicting: %w", err)
		}
		v := &victim{pod: pod, group: group, reason: of.Reason, preemptor: of.For}
		if of.Protected {
			b.protected = append(b.protected, v)
		} else {
			b.others = append(b.others, v)
		}
	}
	b.evict(b.protected)
	return nil
}

// victim is a pod that is being evicted, with the PodGroup of its gang and of the gang that takes its place. Both are nil if they
// are not known.
type victim struct {
	pod              *v1.Pod
	group, preemptor *api.PodGroup
	reason           string
	// begun reports whether the eviction has begun, and deleting whether it is a deletion. The batch's mutex guards begun.
	begun, deleting bool
}

func (v *victim) evictedFor() types.UID {
	if v.preemptor == nil {
		return ""
	}
	return v.preemptor.UID
}

// batch are victims that are evicted together. protected are those about which the API server is asked.
type batch struct {
	of                *Evictor
	protected, others []*victim

	mu sync.Mutex
	// failed reports whether a pod could not be evicted. No eviction begins after that.
	failed bool
}

func (b *batch) all() []*victim { return slices.Concat(b.protected, b.others) }

// evict evicts these protected victims, one after the other, and then all others.
func (b *batch) evict(protected []*victim) {
	if len(protected) == 0 {
		for _, v := range b.others {
			b.of.calls.run(v.pod.Namespace, func() { b.try(v, b.of.delete) })
		}
		return
	}
	v := protected[0]
	b.of.calls.run(v.pod.Namespace, func() {
		if b.try(v, b.of.ask) {
			b.evict(protected[1:])
		}
	})
}

// try evicts the pod, unless a pod of the batch could not be evicted. It reports whether the pod is evicted.
func (b *batch) try(v *victim, evict func(*victim) error) bool {
	if !b.begin(v) {
		return false
	}
	err := evict(v)
	if err != nil {
		b.fail(v, err)
	}
	return err == nil
}

func (b *batch) begin(v *victim) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.failed {
		v.begun = true
	}
	return v.begun
}

// fail drops the evictions that have not begun, because the pod could not be evicted.
func (b *batch) fail(v *victim, err error) {
	logger().Info("A pod cannot be evicted; the pods that are not evicted yet stay", "pod", klog.KObj(v.pod), "reason", err.Error())
	b.mu.Lock()
	first := !b.failed
	b.failed = true // from now on, no victim's begun changes
	b.mu.Unlock()
	if first {
		for _, other := range b.all() {
			if !other.begun {
				b.of.books.Pods.Spare(other.pod)
			}
		}
		if v.preemptor != nil {
			b.of.reports.EvictionRefused(v.preemptor, v.pod, err)
		}
	}
	b.of.reports.NotEvicted(v.pod, !v.deleting)
	b.of.books.Pods.Spare(v.pod) // last, because the next eviction of the pod may begin now, and writes the same condition
}

// ask asks the API server to evict the pod. It returns an error if the pod stays. A scheduler without permission to ask, such as
// with upstream's role, deletes the pod, and later protected pods of the namespace without another question.
func (e *Evictor) ask(v *victim) error {
	if e.permission.isDenied(v.pod.Namespace) {
		return e.delete(v)
	}
	e.reports.EvictionAsked(v.pod, v.evictedFor())
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Name: v.pod.Name, Namespace: v.pod.Namespace},
		DeleteOptions: metav1.NewPreconditionDeleteOptions(string(v.pod.UID)),
	}
	err := e.untilGone(v.pod, askTries, askTimeout, func(ctx context.Context) error {
		return e.kube.PolicyV1().Evictions(v.pod.Namespace).Evict(ctx, eviction)
	})
	if apierrors.IsForbidden(err) && e.permission.review(v.pod.Namespace) {
		return e.delete(v)
	}
	if err == nil {
		e.reports.Evicting(v.pod, v.group, v.reason)
	}
	return err
}

// delete reports the cause of the eviction and deletes the pod. It returns an error if the pod stays.
func (e *Evictor) delete(v *victim) error {
	v.deleting = true
	e.reports.Evicting(v.pod, v.group, v.reason)
	e.reports.Evicted(v.pod, v.evictedFor(), v.reason)
	return e.untilGone(v.pod, deleteTries, deleteTimeout, func(ctx context.Context) error {
		return e.kube.CoreV1().Pods(v.pod.Namespace).Delete(ctx, v.pod.Name, *metav1.NewPreconditionDeleteOptions(string(v.pod.UID)))
	})
}

// isGone reports whether the pod, by UID, no longer exists. It returns false if the API server does not answer.
func (e *Evictor) isGone(ctx context.Context, pod *v1.Pod) bool {
	live, err := e.kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && live.UID != pod.UID
}

// untilGone calls remove, which deletes or evicts the pod by UID, and retries errors that may pass.
func (e *Evictor) untilGone(pod *v1.Pod, tries int, timeout time.Duration, remove func(ctx context.Context) error) error {
	backoff := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: tries}
	var last error
	err := wait.ExponentialBackoff(backoff, func() (bool, error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		last = remove(ctx)
		switch {
		case last == nil, apierrors.IsNotFound(last):
			return true, nil
		case apierrors.IsConflict(last): // usually because a newer pod has the name
			return e.isGone(ctx, pod), nil
		case apierrors.IsInvalid(last), apierrors.HasStatusCause(last, policyv1.DisruptionBudgetCause):
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
