// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
	schedulingclient "volcano.sh/apis/pkg/client/clientset/versioned/typed/scheduling/v1beta1"
)

// PutQueue submits the allocated resources of the named queue to be written, and its deserved and guaranteed resources
// if spec is not nil.
type PutQueue func(name string, allocated v1.ResourceList, spec *v1beta1.QueueSpec)

// QueueClient returns the Volcano client that sessions and plugins use. Updates of queues through the client are passed
// to put. Otherwise upstream would update the root queue with two API calls from within the session loop whenever a
// task was placed.
func QueueClient(client vcclient.Interface, put PutQueue) vcclient.Interface {
	return queueClient{Interface: client, put: put}
}

type queueClient struct {
	vcclient.Interface
	put PutQueue
}

func (c queueClient) SchedulingV1beta1() schedulingclient.SchedulingV1beta1Interface {
	return queueScheduling{c.Interface.SchedulingV1beta1(), c.put}
}

type queueScheduling struct {
	schedulingclient.SchedulingV1beta1Interface
	put PutQueue
}

func (s queueScheduling) Queues() schedulingclient.QueueInterface {
	return queueUpdates{s.SchedulingV1beta1Interface.Queues(), s.put}
}

type queueUpdates struct {
	schedulingclient.QueueInterface
	put PutQueue
}

// Update submits the deserved, guaranteed and allocated resources of the queue to be written.
func (q queueUpdates) Update(_ context.Context, queue *v1beta1.Queue, _ metav1.UpdateOptions) (*v1beta1.Queue, error) {
	q.put(queue.Name, queue.Status.Allocated, &queue.Spec)
	return queue, nil
}

// UpdateStatus submits the allocated resources of the queue to be written.
func (q queueUpdates) UpdateStatus(_ context.Context, queue *v1beta1.Queue, _ metav1.UpdateOptions) (*v1beta1.Queue, error) {
	q.put(queue.Name, queue.Status.Allocated, nil)
	return queue, nil
}
