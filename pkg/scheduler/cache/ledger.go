// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcmetrics "volcano.sh/volcano/pkg/scheduler/metrics"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// Bound books a member as bound. The informer may have told of it before, or tell of it later.
func (c *Cache) Bound(m *binding.Member) {
	c.books.Pods.Bind(api.PodKey(m.Task.Pod), m)
	pod := m.Task.Pod
	vcmetrics.UpdateTaskScheduleDuration(time.Since(pod.CreationTimestamp.Time))
	c.Recorder.Eventf(pod, v1.EventTypeNormal, "Scheduled", "Successfully assigned %s/%s to %s", pod.Namespace, pod.Name, m.Node)
}

// Released frees what a member held: it was not bound, and all it prepared is undone.
func (c *Cache) Released(m *binding.Member, cause error) {
	c.books.Pods.Release(api.PodKey(m.Task.Pod), m)
	klog.V(3).InfoS("Member released", "pod", klog.KObj(m.Task.Pod), "node", m.Node, "cause", cause)
	if err := runBindErrHandler(m.Task); err != nil {
		logger().Error(err, "Custom bind error handler failed", "pod", klog.KObj(m.Task.Pod))
	}
}

// runBindErrHandler runs the handler that a plugin left on the task, if any. A panic in it is its error.
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

// Ended draws the consequences of a transaction for its gangs: they fail together, and wait it out together.
func (c *Cache) Ended(r binding.Result) {
	if wasIncomplete(r) {
		return
	}
	failed := failuresThatCount(r)
	wake := WakeDelayed
	for _, gang := range r.Gangs {
		if len(failed) == 0 || !c.hasGang(gang) {
			c.backoff.Forget(gang)
			c.forgetFailure(gang)
			continue
		}
		c.gangFailed(gang, r, failed)
		wake = WakeNow
	}
	c.wake(wake)
}

// gangFailed has the gang wait out the failures of its transaction, and tells of them.
func (c *Cache) gangFailed(gang api.JobID, r binding.Result, failed []binding.Failure) {
	failure := newFailure(r, failed)
	nodes := failure.nodes
	if c.triedInOutage(r) {
		nodes = nil // it says nothing of them
	}
	tasks := c.tasksOf(gang)
	own := slices.DeleteFunc(slices.Clone(r.Failed), func(f binding.Failure) bool { return f.Member.Task.Job != gang })
	c.reportMu.Lock()
	last, ok := c.failures[gang]
	repeated := ok && failure.repeats(last)
	if repeated {
		failure = last
	}
	tellings := failure.tell(own, tasks)
	c.failures[gang] = failure
	c.reportMu.Unlock()
	until := c.backoff.Failed(gang, failure.reason+": "+failure.message, nodes...)
	if c.triedInOutage(r) {
		c.backoff.RetryNow(gang)
		until = time.Now()
	}
	if !c.hasGang(gang) { // its PodGroup was deleted meanwhile, and nobody tells of that again
		c.backoff.Forget(gang)
		c.forgetFailure(gang)
	}
	logger().Info("Gang was not bound as a whole", "gang", gang, "bound", len(r.Bound), "released", len(r.Failed),
		"retryAt", until.Format(time.RFC3339), "reason", failure.message)
	if repeated {
		c.retellGang(gang, failure)
	} else {
		c.reportGang(gang, failure)
	}
	for _, t := range tellings {
		c.reportPod(t, failure.reason)
	}
}

func (c *Cache) failure(gang api.JobID) (gangFailure, bool) {
	c.reportMu.Lock()
	defer c.reportMu.Unlock()
	failure, ok := c.failures[gang]
	return failure, ok
}

// hasGang is true if the gang's PodGroup is there; one that was deleted has nothing to wait for.
func (c *Cache) hasGang(gang api.JobID) bool {
	version, there := c.podGroupVersion(gang)
	return there && !c.isDeleted(gang, version)
}

// podGroupVersion is that of the gang's PodGroup in upstream's cache, if it is there.
func (c *Cache) podGroupVersion(gang api.JobID) (version string, there bool) {
	c.books.Lock()
	defer c.books.Unlock()
	job := c.books.Jobs.Get(gang)
	if job == nil || job.PodGroup == nil {
		return "", false
	}
	return job.PodGroup.ResourceVersion, true
}

// tasksOf are the UIDs of the gang's pods in the cache.
func (c *Cache) tasksOf(gang api.JobID) map[types.UID]bool {
	c.books.Lock()
	defer c.books.Unlock()
	job := c.books.Jobs.Get(gang)
	if job == nil {
		return nil
	}
	uids := make(map[types.UID]bool, len(job.Tasks))
	for _, task := range job.Tasks {
		uids[task.Pod.UID] = true
	}
	return uids
}

func (c *Cache) forgetFailure(gang api.JobID) {
	c.reportMu.Lock()
	defer c.reportMu.Unlock()
	delete(c.failures, gang)
}

// forgetGang drops what is remembered of a gang whose PodGroup was deleted, and what is under way for it.
func (c *Cache) forgetGang(gang api.JobID) {
	c.cancelGang(gang)
	c.reportMu.Lock()
	defer c.reportMu.Unlock()
	delete(c.failures, gang)
	delete(c.arrivals, gang)
	delete(c.retold, gang)
}
