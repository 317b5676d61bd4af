// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
	vclisters "volcano.sh/apis/pkg/client/listers/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcmetrics "volcano.sh/volcano/pkg/scheduler/metrics"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/books"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
)

// FirstRetry and lastRetry are the shortest and the longest wait of a gang after a failed transaction. The wait doubles
// with each failure, with jitter.
const (
	FirstRetry  = time.Second
	lastRetry   = 60 * time.Second
	retryJitter = 0.2
)

// Config holds the dependencies of a Ledger.
type Config struct {
	Kube    kubernetes.Interface
	Volcano vcclient.Interface
	Books   *books.Books
	Reports *report.Reporter
	// Pods, Nodes and PodGroups list the objects that the watch shows. PodGroupsAt returns the resource version up to
	// which the watch has delivered PodGroups.
	Pods        corelisters.PodLister
	Nodes       corelisters.NodeLister
	PodGroups   vclisters.PodGroupLister
	PodGroupsAt func() string
	// Observer receives reports about transactions, for metrics.
	Observer binding.Observer
	// WakeNow requests a session at once, because a task may be placed now. WakeSoon requests a session after a short
	// delay.
	WakeNow, WakeSoon func()
}

// Ledger holds the open transactions of the running session, and records the outcome of transactions in the books.
type Ledger struct {
	books   *books.Books
	reports *report.Reporter
	watched watched
	engine  *binding.Engine
	backoff *binding.Backoff

	wakeNow, wakeSoon func()

	open openTransactions
	// handover is held while a transaction is handed to the engine, and while the methods CancelPod, CancelGrown,
	// CancelGang and CancelNode fail members of deleted or resized objects.
	handover sync.Mutex
	// serverBack is when the last outage of the API server ended, in nanoseconds since 1970.
	serverBack atomic.Int64
}

var _ binding.Ledger = (*Ledger)(nil)

// New returns a ledger without transactions.
func New(config Config) *Ledger {
	l := &Ledger{
		books: config.Books, reports: config.Reports, wakeNow: config.WakeNow, wakeSoon: config.WakeSoon,
		watched: watched{config.Pods, config.Nodes, config.PodGroups, config.PodGroupsAt},
		backoff: binding.NewBackoff(FirstRetry, lastRetry, retryJitter, config.WakeNow),
		open:    newOpenTransactions(),
	}
	l.engine = binding.New(
		&quorum{config.Books, config.Volcano}, &binder{config.Kube, config.Pods}, l, config.Reports.Observe(config.Observer))
	return l
}

// Backoff returns the Backoff that holds the waits of gangs whose transactions failed.
func (l *Ledger) Backoff() *binding.Backoff { return l.backoff }

// InFlight reports whether the gang has a transaction in flight that may still bind members.
func (l *Ledger) InFlight(gang api.JobID) bool {
	return !l.open.isIncomplete(gang) && l.engine.InFlight(gang)
}

// Failing reports whether the gang has a transaction that has not ended and has failed members. It returns false if
// ReleaseIncomplete has released that transaction, because the session placed too few members for the gang's minimum.
func (l *Ledger) Failing(gang api.JobID) bool {
	return l.engine.Failing(gang) && !l.open.isIncomplete(gang)
}

// GroupsInFlight returns how many transactions with several gangs have not ended.
func (l *Ledger) GroupsInFlight() int { return l.engine.GroupsInFlight() }

// Drain waits for the transactions in flight to end, and refuses new transactions. When ctx ends, transactions whose
// members are not being bound yet are rolled back. The error names the transactions that did not end.
func (l *Ledger) Drain(ctx context.Context) error {
	err := l.engine.Drain(ctx)
	l.backoff.Stop()
	return err
}

// Abort stops all transactions at once, without another write, because the lease is lost. The next leader recovers the
// members.
func (l *Ledger) Abort() {
	l.engine.Abort()
	l.backoff.Stop()
}

// ServerBack is called when an outage of the API server ends. It retries all failed calls of transactions in flight,
// and ends every gang's wait. A gang whose transaction is in flight and fails later does not wait either. ServerBack
// does not block.
func (l *Ledger) ServerBack() {
	l.serverBack.Store(time.Now().UnixNano()) // stored before RetryAll, which ends earlier waits; transactions that end later read serverBack
	l.backoff.RetryAll()
	l.engine.RetryNow()
}

// triedInOutage reports whether the API server recovered while the ended transaction was in flight. The outage may have
// caused the failure, so the gang is retried at once, like gangs that were waiting at the recovery.
func (l *Ledger) triedInOutage(r binding.Result) bool {
	return time.Now().Add(-r.Took).UnixNano() < l.serverBack.Load()
}

// Bound records that the member's pod is bound. The watch may show the bound pod before or after this call.
func (l *Ledger) Bound(m *binding.Member) {
	pod := m.Task.Pod
	l.books.Pods.Bind(api.PodKey(pod), m)
	vcmetrics.UpdateTaskScheduleDuration(time.Since(pod.CreationTimestamp.Time))
	l.reports.Bound(pod, m.Node)
}

// Released frees the resources of a member that is not bound and whose steps are rolled back.
func (l *Ledger) Released(m *binding.Member, cause error) {
	l.books.Pods.Release(api.PodKey(m.Task.Pod), m)
	klog.V(3).InfoS("Member released", "pod", klog.KObj(m.Task.Pod), "node", m.Node, "cause", cause)
	if err := runBindErrHandler(m.Task); err != nil {
		logger().Error(err, "Custom bind error handler failed", "pod", klog.KObj(m.Task.Pod))
	}
}

// runBindErrHandler runs the handler that a plugin set on the task, if the task has one. It returns a panic as an
// error.
func runBindErrHandler(task *api.TaskInfo) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if task.CustomBindErrHandler == nil {
		return nil
	}
	return task.CustomBindErrHandler()
}

// Ended applies the outcome of a transaction to its gangs. After a failure, each gang waits for its backoff.
func (l *Ledger) Ended(r binding.Result) {
	if wasIncomplete(r) {
		return
	}
	failed := failuresThatCount(r)
	wake := l.wakeSoon
	for _, gang := range r.Gangs {
		if len(failed) == 0 || !l.exists(gang) {
			l.backoff.Forget(gang)
			l.reports.ForgetFailure(gang)
			continue
		}
		l.gangFailed(gang, r, failed)
		wake = l.wakeNow
	}
	wake()
}

// gangFailed starts the gang's backoff after its transaction failed, and reports the failures.
func (l *Ledger) gangFailed(gang api.JobID, r binding.Result, failed []binding.Failure) {
	failure := l.reports.Failed(gang, r, failed)
	nodes := failure.Nodes
	if l.triedInOutage(r) {
		nodes = nil // the outage may have caused the failures, so the gang need not avoid their nodes
	}
	until := l.backoff.FailedWith(r.Gangs, gang, failure.Reason+": "+failure.Message, nodes...)
	if l.triedInOutage(r) { // checked again, because ServerBack ended only waits that had begun at that time
		l.backoff.RetryNow(gang)
		until = time.Now()
	}
	if !l.exists(gang) { // the PodGroup was deleted meanwhile, and no later event removes the gang's backoff
		l.backoff.Forget(gang)
		l.reports.ForgetFailure(gang)
	}
	logger().Info("Gang could not be bound as a whole", "gang", gang, "bound", len(r.Bound), "released", len(r.Failed),
		"retryAt", until.Format(time.RFC3339), "reason", failure.Message)
	l.reports.Publish(failure)
}

// failuresThatCount returns the failures because of which the gang must wait. It returns none after a shutdown, or if
// the PodGroup or the pods of all failed members were deleted. If the gang was bound without a member whose pod was
// deleted, that member's failure does not count.
func failuresThatCount(r binding.Result) []binding.Failure {
	var failed []binding.Failure
	allGone := true
	for _, f := range r.Failed {
		if errors.Is(f.Err, binding.ErrDraining) || errors.Is(f.Err, binding.ErrAborted) || errors.Is(f.Err, errGangGone) {
			return nil
		}
		if gone := f.PodGone(); gone && r.QuorumErr == nil {
			continue
		} else if !gone {
			allGone = false
		}
		failed = append(failed, f)
	}
	if allGone {
		return nil
	}
	return failed
}

// exists reports whether the gang's PodGroup exists. A gang whose PodGroup was deleted has nothing to wait for.
func (l *Ledger) exists(gang api.JobID) bool {
	l.books.Lock()
	job := l.books.Jobs.Get(gang)
	there := job != nil && job.PodGroup != nil
	version := ""
	if there {
		version = job.PodGroup.ResourceVersion
	}
	l.books.Unlock()
	return there && !l.watched.isDeleted(gang, version)
}

// CancelPod fails the member of the deleted pod. gang is the gang that the pod names.
func (l *Ledger) CancelPod(gang api.JobID, pod *v1.Pod) {
	if held, is := l.books.Pods.HeldGang(pod); is {
		gang = held // the pod may name another PodGroup now than when it was placed
	}
	l.handover.Lock()
	defer l.handover.Unlock()
	l.engine.Cancel(gang, api.TaskID(pod.UID), binding.ErrPodGone)
}

// CancelGrown fails the member of the pod if the pod requests more than its transaction has reserved.
func (l *Ledger) CancelGrown(pod *v1.Pod) {
	gang, grown := l.books.Pods.Grown(pod)
	if grown == nil {
		return
	}
	l.handover.Lock()
	defer l.handover.Unlock()
	l.engine.Cancel(gang, api.TaskID(pod.UID), grown)
}

// CancelGang fails the members of a gang whose PodGroup was deleted, including members that the running session has
// placed or will place.
func (l *Ledger) CancelGang(gang api.JobID) {
	l.handover.Lock()
	defer l.handover.Unlock()
	l.open.loseGang(gang)
	l.engine.CancelGang(gang, deletedPodGroup(gang))
}

// CancelNode fails the members placed on a deleted node, including members that the running session has placed or will
// place there.
func (l *Ledger) CancelNode(node string) {
	l.handover.Lock()
	defer l.handover.Unlock()
	l.open.loseNode(node)
	l.engine.CancelNode(node, deletedNode(node))
}

func logger() klog.Logger { return klog.Background().WithName("ledger") }
