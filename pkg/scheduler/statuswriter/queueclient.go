// SPDX-License-Identifier: Apache-2.0

package statuswriter

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
	schedulingclient "volcano.sh/apis/pkg/client/clientset/versioned/typed/scheduling/v1beta1"
)

// QueueClient returns the Volcano client that sessions and plugins use. Updates of queues through the client are passed
// to the writer. Otherwise upstream would update the root queue with two API calls from within the session loop
// whenever a task was placed.
func QueueClient(client vcclient.Interface, writer *Writer) vcclient.Interface {
	return queueClient{Interface: client, status: writer}
}

type queueClient struct {
	vcclient.Interface
	status *Writer
}

func (c queueClient) SchedulingV1beta1() schedulingclient.SchedulingV1beta1Interface {
	return queueScheduling{c.Interface.SchedulingV1beta1(), c.status}
}

type queueScheduling struct {
	schedulingclient.SchedulingV1beta1Interface
	status *Writer
}

func (s queueScheduling) Queues() schedulingclient.QueueInterface {
	return queueUpdates{s.SchedulingV1beta1Interface.Queues(), s.status}
}

type queueUpdates struct {
	schedulingclient.QueueInterface
	status *Writer
}

// Update submits the deserved, guaranteed and allocated resources of the queue to the writer.
func (q queueUpdates) Update(_ context.Context, queue *v1beta1.Queue, _ metav1.UpdateOptions) (*v1beta1.Queue, error) {
	q.status.putQueue(queue.Name, &desiredQueue{allocated: queue.Status.Allocated, root: &queue.Spec})
	return queue, nil
}

// UpdateStatus submits the allocated resources of the queue to the writer.
func (q queueUpdates) UpdateStatus(_ context.Context, queue *v1beta1.Queue, _ metav1.UpdateOptions) (*v1beta1.Queue, error) {
	q.status.putQueue(queue.Name, &desiredQueue{allocated: queue.Status.Allocated})
	return queue, nil
}
