// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
	"volcano.sh/volcano/pkg/scheduler/api"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"
)

// This file adapts the Cache to upstream's cache interface (vccache.Cache). Its methods call the parts of the cache, and keep no state. The methods of the
// interface for the snapshot and the results of a session are in session.go.

var _ vccache.Cache = (*Cache)(nil)

// forwardTimeout bounds one call of BindPodGroup.
const forwardTimeout = 15 * time.Second

// Run starts the cache and returns once the initial lists are in it, or when stop is closed. It is here for upstream's
// programs; this project's scheduler calls Start.
func (c *Cache) Run(stop <-chan struct{}) {
	ctx, end := context.WithCancel(context.Background())
	go func() {
		<-stop
		end()
	}()
	if err := c.Start(ctx, ctx); err != nil {
		logger().Error(err, "Starting the cache failed")
	}
}

// WaitForCacheSync waits until the initial lists of all informers are in the cache, or until stop is closed.
func (c *Cache) WaitForCacheSync(stop <-chan struct{}) { c.sources.await(stop) }

// Client returns the Kubernetes client that upstream's plugins use.
func (c *Cache) Client() kubernetes.Interface { return c.handle.kube }

// VCClient returns the Volcano client of sessions and plugins. This client passes updates of queues to the status
// writer (package statuswriter).
func (c *Cache) VCClient() vcclient.Interface { return c.handle.vc }

// ClientConfig returns the configuration from which the clients are built.
func (c *Cache) ClientConfig() *rest.Config { return c.handle.rest }

// SharedInformerFactory returns the informers of Kubernetes' objects.
func (c *Cache) SharedInformerFactory() informers.SharedInformerFactory { return c.sources.kube }

// SharedDRAManager returns the state that plugins which allocate devices share; nil where the API server does not serve
// device claims.
func (c *Cache) SharedDRAManager() k8sframework.SharedDRAManager { return c.sources.shared }

// EventRecorder returns an event recorder. The recorder drops an event that only repeats the
// last event of its object and reason; evictions are always recorded.
func (c *Cache) EventRecorder() record.EventRecorder { return c.reports.Recorder() }

// SetMetricsConf sets the source of the load of nodes, for the next and later measurements.
func (c *Cache) SetMetricsConf(conf map[string]string) { c.load.use(conf) }

// UpdateNodeShardStatus writes the nodes that the NodeShard has in use to its status.
func (c *Cache) UpdateNodeShardStatus(name string) error { return c.shards.write(name) }

// UpdateSchedulerNumaInfo records the CPUs that a session has assigned to tasks.
func (c *Cache) UpdateSchedulerNumaInfo(taken map[string]api.ResNumaSets) error {
	c.books.Nodes.TakeCPUs(taken)
	return nil
}

// IsJobTerminated reports whether the job has no PodGroup and no pods left.
func (c *Cache) IsJobTerminated(id api.JobID) bool { return c.books.Jobs.IsTerminated(id) }

// UpdateQueueStatus passes the queue's status to the status writer.
func (c *Cache) UpdateQueueStatus(queue *api.QueueInfo) error {
	return c.reports.Status().UpdateQueueStatus(queue)
}

// RecordJobStatusEvent reports the session's verdict on the job. Upstream's sessions do not call this method.
func (c *Cache) RecordJobStatusEvent(job *api.JobInfo, _ bool) { c.reports.Verdict(job) }

// RegisterBinder does nothing, because the sessions of this project make upstream's PreBinders steps of the
// transaction.
func (c *Cache) RegisterBinder(string, any) {}

// BindPodGroup records the gang's target cluster on its pods and its PodGroup. A controller reads it there and forwards
// the gang to that cluster.
func (c *Cache) BindPodGroup(job *api.JobInfo, cluster string) error {
	if len(job.Tasks) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), forwardTimeout)
	defer cancel()
	for _, task := range job.Tasks {
		_, err := c.handle.kube.CoreV1().Pods(task.Namespace).Patch(ctx, task.Name, types.MergePatchType, forwardPatch(task.Pod.UID, cluster), metav1.PatchOptions{})
		if err != nil {
			return fmt.Errorf("forwarding pod %s/%s to cluster %s: %w", task.Namespace, task.Name, cluster, err)
		}
	}
	_, err := c.vc.SchedulingV1beta1().PodGroups(job.Namespace).Patch(ctx, job.Name, types.MergePatchType, forwardPatch(job.PgUID, cluster), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("forwarding PodGroup %s to cluster %s: %w", job.UID, cluster, err)
	}
	return nil
}

// forwardPatch returns a patch that sets Volcano's annotation for the cluster to forward to (ForwardClusterKey). The
// API server rejects the patch for an object of the same name with another UID.
func forwardPatch(uid types.UID, cluster string) []byte {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "annotations": map[string]string{batch.ForwardClusterKey: cluster}}})
	if err != nil {
		panic(err) // cannot happen, because the map contains only strings
	}
	return patch
}
