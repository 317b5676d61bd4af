// SPDX-License-Identifier: Apache-2.0

package cache

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/statuswriter"
)

// statusRefused is the reason of the event that tells of a status that the API server refused.
const statusRefused = "StatusRefused"

// newStatusWriter makes the writer that takes the place of upstream's StatusUpdater.
func (c *Cache) newStatusWriter() *statuswriter.Writer {
	return statuswriter.New(statuswriter.Dependencies{
		Kube:      c.kube,
		Volcano:   c.vc,
		Pods:      c.sources.kube.Core().V1().Pods().Lister(),
		PodGroups: c.podGroups,
		Queues:    c.queues,
		Tells:     func(gang api.JobID, pod types.UID) bool { return c.isPending(gang, pod) || c.delays.tells(pod) },
		OwnPod:    ownPod,
		Outdated:  func() { c.wake(WakeDelayed) },
		Refused: func(kind string, object runtime.Object, message string) {
			c.observer.StatusRefused(kind)
			c.Recorder.Event(object, v1.EventTypeWarning, statusRefused, message)
		},
	})
}

// VCClient returns the Volcano client sessions and plugins use: their updates of queues are left to the status writer.
func (c *Cache) VCClient() vcclient.Interface { return statuswriter.QueueClient(c.vc, c.status) }

// isPending is true if the cache has the pod as a task that waits to be placed.
func (c *Cache) isPending(gang api.JobID, pod types.UID) bool {
	c.books.Lock()
	defer c.books.Unlock()
	job := c.books.Jobs.Get(gang)
	if job == nil {
		return false
	}
	task, ok := job.Tasks[api.TaskID(pod)]
	return ok && task.Status == api.Pending
}
