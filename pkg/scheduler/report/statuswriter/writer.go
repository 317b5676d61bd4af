// SPDX-License-Identifier: Apache-2.0

package statuswriter

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"volcano.sh/apis/pkg/apis/scheduling"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
	vclisters "volcano.sh/apis/pkg/client/listers/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/apiwrite"
)

const (
	// workers is the maximum number of concurrent status writes. One namespace gets at most half of them (fairness.go).
	workers = 8
	// timeout limits the duration of one status write.
	timeout = 15 * time.Second
	// firstRetry and LastRetry are the shortest and the longest wait between tries of a write. The wait doubles with each
	// try.
	firstRetry = 20 * time.Millisecond
	LastRetry  = 30 * time.Second
	// unseenPoll is how often the Writer checks whether the watch shows its last write to a PodGroup. It does not write to
	// the PodGroup again before that.
	unseenPoll = 100 * time.Millisecond
	// unseenLimit limits how long the Writer waits until the watch shows its last write to a PodGroup. Without the limit
	// the wait may never end: after etcd was restored from a backup, resource versions are lower than before.
	unseenLimit = time.Minute
	// flushPoll is how often a scheduler that shuts down checks whether its statuses are written.
	flushPoll = 10 * time.Millisecond
	// FlushLimit limits how long a scheduler that is shutting down waits for its statuses and events to be written.
	FlushLimit = 5 * time.Second
	// Settle is the delay of a write that may soon be superseded. Examples are the condition of an unschedulable pod while
	// other pods of its gang are still being created, and the counters of a PodGroup whose pods are just starting.
	Settle = 900 * time.Millisecond
)

type objectKind string

const (
	podKind      objectKind = "pod"
	podGroupKind objectKind = "podgroup"
	queueKind    objectKind = "queue"
)

type objectKey struct {
	kind            objectKind
	namespace, name string
}

// Dependencies are the clients, listers and callbacks that a Writer needs.
type Dependencies struct {
	Kube      kubernetes.Interface
	Volcano   vcclient.Interface
	Pods      corelisters.PodLister
	PodGroups vclisters.PodGroupLister
	Queues    vclisters.QueueLister
	// Reports reports whether a condition of a pod without a node still needs to be written. Once the pod is being bound,
	// that is so only if a condition has reported that the pod waits long in its bind transaction.
	Reports func(gang api.JobID, pod types.UID) bool
	// OwnPod returns a shallow copy of a pod from the watch. The caller may replace its fields and change its annotations;
	// everything else is shared and read-only.
	OwnPod func(*v1.Pod) *v1.Pod
	// Outdated is called when another client has written a status before the Writer, so that the status must be decided
	// again.
	Outdated func()
	// Rejected is called when the API server permanently rejects a status of the object.
	Rejected func(kind string, object runtime.Object, message string)
}

// Writer writes statuses outside the session loop: a call stores the desired status and returns. Only the newest
// desired status of an object counts. A worker writes it if it still differs from the API server's status. After a
// conflict or a failure the worker retries with backoff. A status that the API server permanently rejects is dropped
// and reported.
type Writer struct {
	deps    Dependencies
	queue   workqueue.TypedRateLimitingInterface[objectKey]
	workers sync.WaitGroup

	// rejected records the writes that the API server permanently rejected.
	rejected *rejections
	fairness *fairness

	mu        sync.Mutex
	pods      map[objectKey]*desiredPod
	podGroups map[objectKey]*desiredPodGroup
	// ours has the last status that this Writer wrote to each PodGroup, until the PodGroup is deleted.
	ours   map[objectKey]writtenStatus
	queues map[objectKey]*desiredQueue
}

// New returns a Writer. Its workers do not run until Start is called.
func New(deps Dependencies) *Writer {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[objectKey](firstRetry, LastRetry)
	return &Writer{
		deps:      deps,
		queue:     workqueue.NewTypedRateLimitingQueue(limiter),
		rejected:  newRejections(),
		fairness:  newFairness(),
		pods:      map[objectKey]*desiredPod{},
		podGroups: map[objectKey]*desiredPodGroup{},
		ours:      map[objectKey]writtenStatus{},
		queues:    map[objectKey]*desiredQueue{},
	}
}

// Start starts the workers. They end when the context ends or after Stop is called.
func (w *Writer) Start(ctx context.Context) {
	for range workers {
		w.workers.Go(func() {
			for w.next(ctx) {
			}
		})
	}
}

// Stop writes the desired statuses until the context ends. It drops the remaining statuses, because the next leader
// decides them again. Statuses of the last moments, such as why the shutdown rolled back a gang, are still written.
func (w *Writer) Stop(ctx context.Context) {
	w.flush(ctx)
	done := make(chan struct{})
	go func() {
		w.queue.ShutDownWithDrain()
		w.workers.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	w.queue.ShutDown() // ShutDownWithDrain alone does not end the queue's goroutine
}

// flush returns when all desired statuses are written, when the context ends, or when Abort was called. It must run
// before the queue shuts down, because a queue that shuts down drops delayed writes and retries.
func (w *Writer) flush(ctx context.Context) {
	for _, key := range w.unwritten() {
		w.queue.Add(key)
	}
	poll := time.NewTicker(flushPoll)
	defer poll.Stop()
	for ctx.Err() == nil && !w.queue.ShuttingDown() && len(w.unwritten()) > 0 {
		select {
		case <-poll.C:
		case <-ctx.Done():
		}
	}
}

// unwritten returns the keys of the objects whose desired status is not written yet.
func (w *Writer) unwritten() []objectKey {
	w.mu.Lock()
	defer w.mu.Unlock()
	keys := slices.AppendSeq(slices.Collect(maps.Keys(w.pods)), maps.Keys(w.queues))
	for key, desired := range w.podGroups {
		if desired.written == "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// RetryNow retries at once the failed writes that wait for their next try. If a write fails again, it waits as long as
// after a first failure.
func (w *Writer) RetryNow() {
	for _, key := range w.unwritten() {
		if w.queue.NumRequeues(key) > 0 {
			w.queue.Forget(key)
			w.queue.Add(key)
		}
	}
}

// Abort drops the writes that are delayed and the retries that wait. Stop then waits only for the writes that have
// begun or are due.
func (w *Writer) Abort() { w.queue.ShutDown() }

func (w *Writer) next(ctx context.Context) bool {
	key, shutdown := w.queue.Get()
	if shutdown {
		return false
	}
	defer w.queue.Done(key)
	if !w.fairness.begin(key) {
		return true
	}
	defer func() {
		if next, ok := w.fairness.end(key); ok {
			w.queue.Add(next)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := w.write(ctx, key); err != nil {
		if !apierrors.IsConflict(err) {
			klog.Background().WithName("status").Error(err, "Status write failed, retrying", "kind", key.kind, "namespace", key.namespace, "name", key.name)
		}
		w.queue.AddRateLimited(key)
		return true
	}
	w.queue.Forget(key)
	return true
}

func (w *Writer) write(ctx context.Context, key objectKey) error {
	switch key.kind {
	case podKind:
		return w.writePod(ctx, key)
	case podGroupKind:
		return w.writePodGroup(ctx, key)
	default:
		return w.writeQueue(ctx, key)
	}
}

// UpdatePodStatus submits the pod's condition PodScheduled and its nominated node. If there is a nominated node, both
// are written without delay, in one write. Otherwise the condition is written a moment later, unless the pod is placed
// in the meantime.
func (w *Writer) UpdatePodStatus(pod *v1.Pod) (*v1.Pod, error) {
	w.PutPod(pod, Settle)
	return pod, nil
}

// UpdatePodGroup submits the PodGroup's status. A change of the phase or conditions is written at once. A change of
// only the counters is written a moment later.
func (w *Writer) UpdatePodGroup(pg *api.PodGroup) (*api.PodGroup, error) {
	w.PutPodGroup(pg, false)
	return pg, nil
}

// UpdateQueueStatus submits the allocated resources of the queue, which are written a moment later.
func (w *Writer) UpdateQueueStatus(queue *api.QueueInfo) error {
	w.PutQueue(queue.Name, queue.Queue.Status.Allocated, nil)
	return nil
}

// Decided returns the desired status of the job's PodGroup if the cache does not have this status yet; false otherwise.
func (w *Writer) Decided(job *api.JobInfo) (*scheduling.PodGroupStatus, bool) {
	if w == nil || job.PodGroup == nil {
		return nil, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	desired, ok := w.podGroups[objectKey{podGroupKind, job.Namespace, job.Name}]
	if !ok || desired.uid != job.PodGroup.UID {
		return nil, false
	}
	if desired.written != "" && !apiwrite.OlderVersion(job.PodGroup.ResourceVersion, desired.written) {
		delete(w.podGroups, objectKey{podGroupKind, job.Namespace, job.Name})
		return nil, false
	}
	return &desired.status, true
}
