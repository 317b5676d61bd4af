// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"volcano.sh/apis/pkg/apis/scheduling"
	nodeshardv1alpha1 "volcano.sh/apis/pkg/apis/shard/v1alpha1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"

	"github.com/volcano-prebind/volcano-prebind/internal/apiwrite"
)

const (
	// statusWorkers bounds status writes under way at once.
	statusWorkers = 8
	// statusTimeout bounds one status write.
	statusTimeout = 15 * time.Second
	// statusFirstRetry and statusLastRetry are the waits between tries of a write, which double.
	statusFirstRetry = 20 * time.Millisecond
	statusLastRetry  = 30 * time.Second
	// flushPoll is how often a scheduler that ends looks whether its statuses are written.
	flushPoll = 10 * time.Millisecond
	// flushLimit bounds how long statuses and events of a scheduler that ends are waited for.
	flushLimit = 5 * time.Second
	// settle is how long a write waits that a moment later may not be needed any more: a pod found unschedulable
	// while its gang is still arriving, counters of a PodGroup whose pods are just starting.
	settle = 900 * time.Millisecond
)

type statusKind string

const (
	podKind      statusKind = "pod"
	podGroupKind statusKind = "podgroup"
	queueKind    statusKind = "queue"
)

type statusKey struct {
	kind            statusKind
	namespace, name string
}

// statusWriter takes status writes off the session loop. It is the StatusUpdater that upstream's cache calls: a call
// leaves a wish and returns. Only the newest wish for an object counts; a worker writes it when it still differs
// from what the API server has, and again after a conflict or a failure, with backoff. What the API server refuses for
// good is dropped and told.
type statusWriter struct {
	cache *Cache
	// passThrough does what has no wish of its own: node shards.
	passThrough vccache.StatusUpdater
	queue       workqueue.TypedRateLimitingInterface[statusKey]
	workers     sync.WaitGroup

	// refused are the writes that the API server refused for good.
	refused *refusals

	mu        sync.Mutex
	pods      map[statusKey]*podWish
	podGroups map[statusKey]*podGroupWish
	// ours is the status written last to each PodGroup that was not deleted since.
	ours   map[statusKey]writtenStatus
	queues map[statusKey]*queueWish
}

var _ vccache.StatusUpdater = (*statusWriter)(nil)

func newStatusWriter(c *Cache) *statusWriter {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[statusKey](statusFirstRetry, statusLastRetry)
	return &statusWriter{
		cache:       c,
		passThrough: c.StatusUpdater,
		queue:       workqueue.NewTypedRateLimitingQueue(limiter),
		refused:     newRefusals(),
		pods:        map[statusKey]*podWish{},
		podGroups:   map[statusKey]*podGroupWish{},
		ours:        map[statusKey]writtenStatus{},
		queues:      map[statusKey]*queueWish{},
	}
}

func (w *statusWriter) start(ctx context.Context) {
	for range statusWorkers {
		w.workers.Go(func() {
			for w.next(ctx) {
			}
		})
	}
}

// stop writes what is wished for, as far as the context lets it, and drops the rest: the next leader decides that anew.
// What was asked for within the last moments, such as why a gang was rolled back by the shutdown, still goes out.
func (w *statusWriter) stop(ctx context.Context) {
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

// flush returns when every wish is written, the context ends or abort was called. A queue that shuts down would drop the
// writes that wait a moment, and those that failed and are to be tried again.
func (w *statusWriter) flush(ctx context.Context) {
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

// unwritten lists what there is a wish for that is not written.
func (w *statusWriter) unwritten() []statusKey {
	w.mu.Lock()
	defer w.mu.Unlock()
	keys := slices.AppendSeq(slices.Collect(maps.Keys(w.pods)), maps.Keys(w.queues))
	for key, wish := range w.podGroups {
		if wish.written == "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// retryNow has the writes that failed, and wait to be tried again, tried now; if they fail again, they wait as after a
// first failure.
func (w *statusWriter) retryNow() {
	for _, key := range w.unwritten() {
		if w.queue.NumRequeues(key) > 0 {
			w.queue.Forget(key)
			w.queue.Add(key)
		}
	}
}

// abort makes stop wait for nothing but the writes under way.
func (w *statusWriter) abort() { w.queue.ShutDown() }

func (w *statusWriter) next(ctx context.Context) bool {
	key, shutdown := w.queue.Get()
	if shutdown {
		return false
	}
	defer w.queue.Done(key)
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	if err := w.write(ctx, key); err != nil {
		if !apierrors.IsConflict(err) {
			logger().Error(err, "Status write failed, it is tried again", "kind", key.kind, "namespace", key.namespace, "name", key.name)
		}
		w.queue.AddRateLimited(key)
		return true
	}
	w.queue.Forget(key)
	return true
}

func (w *statusWriter) write(ctx context.Context, key statusKey) error {
	switch key.kind {
	case podKind:
		return w.writePod(ctx, key)
	case podGroupKind:
		return w.writePodGroup(ctx, key)
	default:
		return w.writeQueue(ctx, key)
	}
}

// UpdatePodStatus wishes for the pod's PodScheduled condition and nominated node. A nomination is written at once;
// a mere "unschedulable" waits a moment, and is dropped when the pod is placed by then.
func (w *statusWriter) UpdatePodStatus(pod *v1.Pod) (*v1.Pod, error) {
	w.wishPod(pod, settle)
	return pod, nil
}

// UpdatePodGroup wishes for the PodGroup's status. A change of phase or conditions is written at once, counters
// alone a moment later.
func (w *statusWriter) UpdatePodGroup(pg *api.PodGroup) (*api.PodGroup, error) {
	w.wishPodGroup(pg, false)
	return pg, nil
}

// UpdateQueueStatus wishes for the queue's allocated resources.
func (w *statusWriter) UpdateQueueStatus(queue *api.QueueInfo) error {
	w.wishQueue(queue.Name, &queueWish{allocated: queue.Queue.Status.Allocated})
	return nil
}

// UpdateNodeShardStatus is upstream's own.
func (w *statusWriter) UpdateNodeShardStatus(shard *nodeshardv1alpha1.NodeShard) (*nodeshardv1alpha1.NodeShard, error) {
	return w.passThrough.UpdateNodeShardStatus(shard)
}

// decided returns the status that was decided for the job's PodGroup and is not in the cache yet.
func (w *statusWriter) decided(job *api.JobInfo) (*scheduling.PodGroupStatus, bool) {
	if w == nil || job.PodGroup == nil {
		return nil, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	wish, ok := w.podGroups[statusKey{podGroupKind, job.Namespace, job.Name}]
	if !ok || wish.uid != job.PodGroup.UID {
		return nil, false
	}
	if wish.written != "" && !apiwrite.OlderVersion(job.PodGroup.ResourceVersion, wish.written) {
		delete(w.podGroups, statusKey{podGroupKind, job.Namespace, job.Name})
		return nil, false
	}
	return &wish.status, true
}
