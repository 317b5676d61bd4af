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
	// workers bounds concurrent status writes.
	workers = 8
	// timeout bounds one status write.
	timeout = 15 * time.Second
	// firstRetry and LastRetry are the waits between tries of a write, which double.
	firstRetry = 20 * time.Millisecond
	LastRetry  = 30 * time.Second
	// unseenPoll is how often a write to a PodGroup checks whether the watch has shown the last write.
	unseenPoll = 100 * time.Millisecond
	// unseenLimit bounds the wait for the last write to be shown: after etcd was restored from a backup, resource versions are
	// lower than before.
	unseenLimit = time.Minute
	// flushPoll is how often a scheduler that ends checks whether its statuses are written.
	flushPoll = 10 * time.Millisecond
	// FlushLimit bounds how long a scheduler that ends waits for its statuses and events to be written.
	FlushLimit = 5 * time.Second
	// Settle is the delay of a write that may soon be superseded: a pod found unschedulable while its gang is still arriving,
	// counters of a PodGroup whose pods are just starting.
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

// Dependencies are the clients, listers and callbacks of a Writer.
type Dependencies struct {
	Kube      kubernetes.Interface
	Volcano   vcclient.Interface
	Pods      corelisters.PodLister
	PodGroups vclisters.PodGroupLister
	Queues    vclisters.QueueLister
	// Tells reports whether a desired condition of the pod, which has no node, is still of interest. Once the pod is being
	// bound, only the report of a delay is.
	Tells func(gang api.JobID, pod types.UID) bool
	// OwnPod copies a pod that the watch shows so that it can be written to.
	OwnPod func(*v1.Pod) *v1.Pod
	// Outdated is called when another client wrote a status first, so that it must be decided again.
	Outdated func()
	// Refused is called when the API server refuses a status for good.
	Refused func(kind string, object runtime.Object, message string)
}

// Writer writes statuses off the session loop: a call stores the desired status and returns. Only the newest status of an
// object counts. A worker writes it if it still differs from the API server's status, and retries after a conflict or a
// failure, with backoff. Statuses that the API server refuses for good are dropped and reported.
type Writer struct {
	deps    Dependencies
	queue   workqueue.TypedRateLimitingInterface[objectKey]
	workers sync.WaitGroup

	// refused are the writes that the API server refused for good.
	refused *refusals

	mu        sync.Mutex
	pods      map[objectKey]*desiredPod
	podGroups map[objectKey]*desiredPodGroup
	// ours is the last status written to each PodGroup that was not deleted since.
	ours   map[objectKey]writtenStatus
	queues map[objectKey]*desiredQueue
}

// New returns a writer that is not started.
func New(deps Dependencies) *Writer {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[objectKey](firstRetry, LastRetry)
	return &Writer{
		deps:      deps,
		queue:     workqueue.NewTypedRateLimitingQueue(limiter),
		refused:   newRefusals(),
		pods:      map[objectKey]*desiredPod{},
		podGroups: map[objectKey]*desiredPodGroup{},
		ours:      map[objectKey]writtenStatus{},
		queues:    map[objectKey]*desiredQueue{},
	}
}

// Start starts the workers, which end with the context or after Stop.
func (w *Writer) Start(ctx context.Context) {
	for range workers {
		w.workers.Go(func() {
			for w.next(ctx) {
			}
		})
	}
}

// Stop writes the desired statuses, as far as the context allows, and drops the rest: the next leader decides them again.
// Statuses of the last moments, such as why the shutdown rolled back a gang, are still written.
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
	w.queue.ShutDown() // draining alone does not end the queue's own goroutine
}

// flush returns when all desired statuses are written, the context ends or Abort was called. A queue that shuts down would drop
// delayed writes and retries.
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

// unwritten returns the keys of desired statuses that are not written.
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

// RetryNow retries the failed writes that wait; if they fail again, they wait as after a first failure.
func (w *Writer) RetryNow() {
	for _, key := range w.unwritten() {
		if w.queue.NumRequeues(key) > 0 {
			w.queue.Forget(key)
			w.queue.Add(key)
		}
	}
}

// Abort makes Stop wait only for the writes under way.
func (w *Writer) Abort() { w.queue.ShutDown() }

func (w *Writer) next(ctx context.Context) bool {
	key, shutdown := w.queue.Get()
	if shutdown {
		return false
	}
	defer w.queue.Done(key)
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

// UpdatePodStatus submits the pod's PodScheduled condition and nominated node. A nomination is written at once. A condition
// alone is delayed a moment, and dropped if the pod is placed meanwhile.
func (w *Writer) UpdatePodStatus(pod *v1.Pod) (*v1.Pod, error) {
	w.PutPod(pod, Settle)
	return pod, nil
}

// UpdatePodGroup submits the PodGroup's status. A change of phase or conditions is written at once, counters alone a moment
// later.
func (w *Writer) UpdatePodGroup(pg *api.PodGroup) (*api.PodGroup, error) {
	w.PutPodGroup(pg, false)
	return pg, nil
}

// UpdateQueueStatus submits the queue's allocated resources.
func (w *Writer) UpdateQueueStatus(queue *api.QueueInfo) error {
	w.putQueue(queue.Name, &desiredQueue{allocated: queue.Queue.Status.Allocated})
	return nil
}

// Decided returns the status that was decided for the job's PodGroup and is not in the cache yet.
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
