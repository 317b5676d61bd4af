// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/util"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report/events"
)

const (
	// rootQueue is upstream's name of the root of the queue hierarchy.
	rootQueue = "root"
	// queueTimeout bounds one API call for a queue.
	queueTimeout = 15 * time.Second
)

// New returns a cache. Like upstream, it creates the root queue and the default queue if they do not exist. So it waits
// for the API server until ctx ends. The cache calls wake when a change needs a cycle.
func New(ctx context.Context, config *rest.Config, opt *options.ServerOption, observer Observer, wake func(Urgency)) (*Cache, error) {
	kube, forEvents, vc, err := clients(config)
	if err != nil {
		return nil, err
	}
	if err := awaitQueues(ctx, vc, opt.DefaultQueue); err != nil {
		return nil, err
	}
	writer := events.NewWriter(forEvents.CoreV1().Events(metav1.NamespaceAll), util.GenerateComponentName(opt.SchedulerNames), observer.EventDone)
	return On(kube, vc, Settings{
		Rest: config, SchedulerNames: opt.SchedulerNames, DefaultQueue: opt.DefaultQueue, NodeSelectors: opt.NodeSelector,
		IgnoredProvisioners: opt.IgnoredCSIProvisioners, Resync: opt.ResyncPeriod, Events: writer,
	}, observer, wake)
}

// clients returns the clients for binding and for Volcano's objects, and a client for events. The Kubernetes clients
// use protobuf. Volcano's objects are custom resources, which the API server serves as JSON only.
func clients(config *rest.Config) (kube, forEvents kubernetes.Interface, vc vcclient.Interface, err error) {
	proto := rest.CopyConfig(config)
	proto.ContentType = "application/vnd.kubernetes.protobuf"
	if kube, err = kubernetes.NewForConfig(proto); err != nil {
		return nil, nil, nil, fmt.Errorf("creating the Kubernetes client: %w", err)
	}
	limited := rest.CopyConfig(proto)
	limited.QPS, limited.Burst = events.PerSecond, events.Burst
	if forEvents, err = kubernetes.NewForConfig(limited); err != nil {
		return nil, nil, nil, fmt.Errorf("creating the client for events: %w", err)
	}
	if vc, err = vcclient.NewForConfig(config); err != nil {
		return nil, nil, nil, fmt.Errorf("creating the Volcano client: %w", err)
	}
	return kube, forEvents, vc, nil
}

// awaitQueues returns once the root queue and the default queue exist, with an error when ctx ends or the API server
// rejects a queue for good. It creates a missing queue.
func awaitQueues(ctx context.Context, vc vcclient.Interface, defaultQueue string) error {
	for _, name := range []string{rootQueue, defaultQueue} {
		queue := &v1beta1.Queue{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1beta1.QueueSpec{Weight: 1, Reclaimable: new(name != rootQueue)},
		}
		var last string
		pauses := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.5, Cap: time.Second, Steps: 1 << 30}
		err := pauses.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
			err := ensureQueue(ctx, vc, queue)
			switch {
			case err == nil:
				return true, nil
			case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
				return false, err
			case err.Error() != last && ctx.Err() == nil:
				last = err.Error()
				logger().Info("Creating a queue failed, retrying; scheduling starts once it exists", "queue", name, "reason", last)
			}
			return false, nil
		})
		if err != nil {
			return fmt.Errorf("creating queue %q (root, or the queue of --default-queue): %w", name, err)
		}
	}
	return nil
}

// ensureQueue creates the queue unless it exists.
func ensureQueue(ctx context.Context, vc vcclient.Interface, queue *v1beta1.Queue) error {
	ctx, cancel := context.WithTimeout(ctx, queueTimeout)
	defer cancel()
	_, err := vc.SchedulingV1beta1().Queues().Create(ctx, queue, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
