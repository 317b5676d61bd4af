// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"reflect"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// taskClone is a task of a node or a job in the books, with its copy.
//
// The books never change the tasks of a node, they only replace them. Of a job's tasks, the books change the status,
// the node, the pod and the NUMA information.
type taskClone struct {
	key           api.TaskID
	source, clone *api.TaskInfo
	// The fields below are the source's fields when the copy was made. requests is its Resreq, and launch its
	// InitResreq.
	status           api.TaskStatus
	numa             *api.TopologyInfo
	policy           string
	pinned           bool
	requests, launch *Amount
	// pod is the pod of the source when the job was last compared.
	pod *v1.Pod
	// sub is the copy's sub-job that contains the task; nil for a task of a node.
	sub *api.SubJobInfo
}

func newTaskClone(key api.TaskID, source, clone *api.TaskInfo, known *amounts) taskClone {
	return taskClone{
		key: key, source: source, clone: clone,
		status: source.Status, numa: source.NumaInfo, policy: source.NumaInfo.Policy, pinned: len(source.NumaInfo.ResMap) > 0,
		pod: source.Pod, requests: known.of(source.Resreq), launch: known.of(source.InitResreq),
	}
}

// unchanged reports whether the copy equals a new Clone of the source task.
func (t *taskClone) unchanged() bool {
	c, source := t.clone, t.source
	return source.Status == t.status && c.Status == t.status && c.Pod == source.Pod && c.NodeName == source.NodeName && c.UID == source.UID && c.Job == source.Job &&
		c.Name == source.Name && c.Namespace == source.Namespace && c.TaskRole == source.TaskRole && c.Priority == source.Priority &&
		c.VolumeReady == source.VolumeReady && c.Preemptable == source.Preemptable && c.BestEffort == source.BestEffort &&
		c.HasRestartableInitContainer == source.HasRestartableInitContainer && c.SchGated == source.SchGated && c.RevocableZone == source.RevocableZone &&
		!c.EvictionOccurred && c.JobAllocatedHyperNode == "" && c.LastTransaction == nil && source.LastTransaction == nil &&
		c.CustomBindErrHandler == nil && !c.CustomBindErrHandlerSucceeded &&
		t.requests.Is(c.Resreq) && t.launch.Is(c.InitResreq) && t.equalNUMA()
}

func (t *taskClone) equalNUMA() bool {
	c := t.clone.NumaInfo
	return t.source.NumaInfo == t.numa && c != nil && c.Policy == t.policy && c.ResMap != nil &&
		(!t.pinned && len(c.ResMap) == 0 || reflect.DeepEqual(c.ResMap, t.numa.ResMap))
}
