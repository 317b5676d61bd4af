// SPDX-License-Identifier: Apache-2.0

package books

import (
	"maps"
	"slices"
	"sync"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/snapshot"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/upstream"
)

// Snapshot returns the snapshot for the next session, with these HyperNodes. The former session must have ended,
// because unchanged copies in its snapshot are used again. The caller must hold the mutex.
func (b *Books) Snapshot(hyperNodes *api.HyperNodesInfo) *api.ClusterInfo {
	b.Pods.lapse()
	b.Nodes.count()
	b.Jobs.settle(b.Tables.Queues)
	given := b.rest(hyperNodes)
	var nodes sync.WaitGroup
	nodes.Go(func() { given.Nodes, given.RevocableNodes = b.copies.Nodes(b.Nodes) })
	otherwise := b.Tables.DefaultPriority()
	given.Jobs = b.copies.Jobs(b.Jobs, func(job *api.JobInfo) int32 { return b.prioritize(job, otherwise) })
	nodes.Wait()
	b.copies.Distrust()
	return given
}

// Full returns a snapshot that shares nothing with the books and belongs to the caller. With move, it first moves jobs to
// the queues that their PodGroups name, which is allowed only between sessions. The caller must hold the mutex.
func (b *Books) Full(hyperNodes *api.HyperNodesInfo, move bool) *api.ClusterInfo {
	b.Pods.lapse()
	b.Nodes.count()
	given := b.rest(hyperNodes)
	for _, name := range b.Nodes.order {
		info, _ := b.Nodes.Ready(name)
		if info == nil {
			continue
		}
		given.Nodes[name] = upstream.CloneNode(info)
		if info.RevocableZone != "" {
			given.RevocableNodes[name] = given.Nodes[name]
		}
	}
	if move {
		b.Jobs.settle(b.Tables.Queues)
	}
	otherwise := b.Tables.DefaultPriority()
	for id, e := range b.Jobs.entries {
		if e.schedulable(b.Tables.Queues) {
			b.prioritize(e.info, otherwise)
			given.Jobs[id] = snapshot.CloneJob(e.info)
		}
	}
	return given
}

// prioritize records the priority of the job's PodGroup in the job, and returns it. If the PodGroup names no existing
// PriorityClass, the priority is the parameter `otherwise`. The job keeps its priority if the PodGroup is deleted while
// its pods run.
func (b *Books) prioritize(job *api.JobInfo, otherwise int32) int32 {
	job.Priority = b.Tables.priorityOf(job, otherwise)
	return job.Priority
}

// Copies returns the copies of jobs and nodes that Snapshot uses again.
func (b *Books) Copies() *snapshot.Copies { return b.copies }

// rest returns a snapshot that contains everything except nodes and jobs.
func (b *Books) rest(hyperNodes *api.HyperNodesInfo) *api.ClusterInfo {
	given := &api.ClusterInfo{
		Jobs:           map[api.JobID]*api.JobInfo{},
		Nodes:          map[string]*api.NodeInfo{},
		RevocableNodes: map[string]*api.NodeInfo{},
		NodeList:       slices.Clone(b.Nodes.order),
		NodesInShard:   b.InShard.Clone(),
		Queues:         make(map[api.QueueID]*api.QueueInfo, len(b.Tables.Queues)),
		NamespaceInfo:  make(map[api.NamespaceName]*api.NamespaceInfo, len(b.Tables.Quotas)),
		CSINodesStatus: maps.Clone(b.Nodes.csiStatuses),
	}
	for id, queue := range b.Tables.Queues {
		own, object := queue.Clone(), *queue.Queue
		own.Queue = &object // upstream's sessions write the queue's status
		given.Queues[id] = own
	}
	for _, quotas := range b.Tables.Quotas {
		info := quotas.Snapshot()
		given.NamespaceInfo[info.Name] = info
	}
	hyperNodes.Lock()
	defer hyperNodes.Unlock()
	given.HyperNodes = hyperNodes.HyperNodes()
	given.HyperNodesSetByTier = hyperNodes.HyperNodesSetByTier()
	given.HyperNodeTierNameMap = hyperNodes.HyperNodeTierNameMap()
	given.RealNodesSet = hyperNodes.RealNodesSet()
	given.HyperNodesReadyToSchedule = hyperNodes.Ready()
	return given
}
