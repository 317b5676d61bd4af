// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
	schedulingclient "volcano.sh/apis/pkg/client/clientset/versioned/typed/scheduling/v1beta1"
)

// VCClient returns the Volcano client sessions and plugins use. Updates of queues through it become wishes of the
// status writer: upstream updates the root queue with two calls from within the session loop whenever anything was
// placed.
func (c *Cache) VCClient() vcclient.Interface {
	return queueWishClient{Interface: c.vc, status: c.status}
}

type queueWishClient struct {
	vcclient.Interface
	status *statusWriter
}

func (c queueWishClient) SchedulingV1beta1() schedulingclient.SchedulingV1beta1Interface {
	return queueWishScheduling{c.Interface.SchedulingV1beta1(), c.status}
}

type queueWishScheduling struct {
	schedulingclient.SchedulingV1beta1Interface
	status *statusWriter
}

func (s queueWishScheduling) Queues() schedulingclient.QueueInterface {
	return queueWishes{s.SchedulingV1beta1Interface.Queues(), s.status}
}

type queueWishes struct {
	schedulingclient.QueueInterface
	status *statusWriter
}

// Update wishes for the queue's deserved and guaranteed resources.
func (q queueWishes) Update(_ context.Context, queue *v1beta1.Queue, _ metav1.UpdateOptions) (*v1beta1.Queue, error) {
	q.status.wishQueue(queue.Name, &queueWish{allocated: queue.Status.Allocated, root: &queue.Spec})
	return queue, nil
}

// UpdateStatus wishes for the queue's allocated resources.
func (q queueWishes) UpdateStatus(_ context.Context, queue *v1beta1.Queue, _ metav1.UpdateOptions) (*v1beta1.Queue, error) {
	q.status.wishQueue(queue.Name, &queueWish{allocated: queue.Status.Allocated})
	return queue, nil
}
