// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"maps"
	"reflect"
	"slices"
	"sync"

	schedulingv1 "k8s.io/api/scheduling/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/api/devices/ascend/hami"
	"volcano.sh/volcano/pkg/scheduler/api/devices/ascend/mindcluster/ascend310p/vnpu"
	"volcano.sh/volcano/pkg/scheduler/api/devices/nvidia/gpushare"
	"volcano.sh/volcano/pkg/scheduler/api/devices/nvidia/vgpu"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"
)

// Snapshotter makes the snapshots of sessions. A session gets copies of the cache's nodes and jobs, to change as it likes;
// making them is most of what upstream's Snapshot does, and from one session to the next little changes. So it
// hands out the copies of the last session again where they are as good as new, and has upstream make the rest.
//
// Whether a copy is as good as new is looked at each time, under the cache's mutex. Nothing tells it what
// changed, so nothing can forget to. Upstream's Clone is a function of some fields of its source, and a copy is handed
// out again only if
//
//   - these fields are what they were when the copy was made. Those that are replaced when they change are the same
//     pointers, and cannot be those of another object because the Snapshotter holds on to them; the others are equal. And
//   - all that the session could change in the copy is what it was when the copy was made. Some fields that sessions
//     change all the time and that depend on one field of the source, such as a PodGroup's status, are set right
//     instead.
//
// What a copy shares with its source, such as pods, it shares in upstream's snapshot too, and is not looked at.
//
// Two kinds of nodes are always copied: those with NUMA information, which upstream changes in place, and, while
// upstream's device code is on, all of them, because its Clone talks to device plugins through the API server.
//
// A Snapshotter serves one session at a time: what one was given is no longer its own when the next one opens.
type Snapshotter struct {
	nodes map[string]*nodeClone
	jobs  map[api.JobID]*jobClone
	// ignored are the resources that upstream leaves out of what nodes and pods have; a copy depends on them.
	ignored []string
}

// New makes a Snapshotter that has no copies yet.
func New() *Snapshotter {
	return &Snapshotter{nodes: map[string]*nodeClone{}, jobs: map[api.JobID]*jobClone{}}
}

// Snapshot is upstream's Snapshot of the cache, whose mutex is held, with these HyperNodes and with copies of the last session where
// they will do.
func (s *Snapshotter) Snapshot(cache *vccache.SchedulerCache, hyperNodes *api.HyperNodesInfo) *api.ClusterInfo {
	rest := withoutNodesAndJobs(cache, hyperNodes)
	priority := defaultPriority(cache)
	var nodes sync.WaitGroup
	nodes.Go(func() { s.siftNodes(cache, rest.Nodes) })
	s.siftJobs(cache, priority, rest.Jobs)
	nodes.Wait()
	snapshot := rest.Snapshot()
	s.addNodes(cache, snapshot)
	s.addJobs(cache, snapshot)
	return snapshot
}

// Full is upstream's Snapshot of the cache, whose mutex is held, with these HyperNodes: all of it is the caller's own.
func Full(cache *vccache.SchedulerCache, hyperNodes *api.HyperNodesInfo) *api.ClusterInfo {
	all := withoutNodesAndJobs(cache, hyperNodes)
	all.Nodes, all.Jobs = cache.Nodes, cache.Jobs
	return all.Snapshot()
}

// withoutNodesAndJobs is a cache of upstream's like the given one, whose mutex is held, but without nodes and jobs, and with
// these HyperNodes.
func withoutNodesAndJobs(cache *vccache.SchedulerCache, hyperNodes *api.HyperNodesInfo) *vccache.SchedulerCache {
	rest := &vccache.SchedulerCache{
		Nodes:               map[string]*api.NodeInfo{},
		Jobs:                map[api.JobID]*api.JobInfo{},
		Queues:              cache.Queues,
		PriorityClasses:     maps.Clone(cache.PriorityClasses),
		NodeList:            cache.NodeList,
		CSINodesStatus:      cache.CSINodesStatus,
		HyperNodesInfo:      hyperNodes,
		InUseNodesInShard:   cache.InUseNodesInShard,
		NamespaceCollection: cache.NamespaceCollection,
	}
	rest.AddPriorityClass(&schedulingv1.PriorityClass{Value: defaultPriority(cache), GlobalDefault: true})
	return rest
}

// defaultPriority is the priority of jobs that name no class. Upstream keeps it to itself.
func defaultPriority(cache *vccache.SchedulerCache) int32 {
	return int32(reflect.ValueOf(cache).Elem().FieldByName("defaultPriority").Int())
}

// devicesOn is true if upstream's device code is on, which it is for the whole process.
func devicesOn() bool {
	return gpushare.GpuSharingEnable || gpushare.GpuNumberEnable || vgpu.VGPUEnable || vnpu.AscendMindClusterVNPUEnable || hami.AscendHAMiVNPUEnable
}

// siftNodes lists the nodes that need a new copy, and forgets those that are gone.
func (s *Snapshotter) siftNodes(cache *vccache.SchedulerCache, stale map[string]*api.NodeInfo) {
	ignored := api.IgnoredDevicesList.List()
	none := devicesOn() || !slices.Equal(ignored, s.ignored)
	s.ignored = slices.Clone(ignored)
	for name, node := range cache.Nodes {
		if kept, ok := s.nodes[name]; !ok || none || !kept.unchanged(node) {
			stale[name] = node
		}
	}
	maps.DeleteFunc(s.nodes, func(name string, _ *nodeClone) bool {
		node, ok := cache.Nodes[name]
		return !ok || !node.Ready()
	})
}

// addNodes adds the kept copies to a snapshot that has the new ones, and keeps these.
func (s *Snapshotter) addNodes(cache *vccache.SchedulerCache, snapshot *api.ClusterInfo) {
	for name, clone := range snapshot.Nodes {
		s.nodes[name] = newNodeClone(cache.Nodes[name], clone, s.nodes[name])
	}
	for name, kept := range s.nodes {
		snapshot.Nodes[name] = kept.clone
		if cache.Nodes[name].RevocableZone != "" {
			snapshot.RevocableNodes[name] = kept.clone
		}
	}
}

// siftJobs lists the jobs that need a new copy, and forgets those that are gone or that sessions do not see.
func (s *Snapshotter) siftJobs(cache *vccache.SchedulerCache, priority int32, stale map[api.JobID]*api.JobInfo) {
	for id, job := range cache.Jobs {
		if kept, ok := s.jobs[id]; !ok || !kept.unchanged(job, priorityOf(job, cache.PriorityClasses, priority)) {
			stale[id] = job
		}
	}
	maps.DeleteFunc(s.jobs, func(id api.JobID, kept *jobClone) bool {
		_, changed := stale[id]
		return changed || cache.Jobs[id] == nil || cache.Queues[kept.clone.Queue] == nil
	})
}

// priorityOf is the priority that upstream's Snapshot gives the job.
func priorityOf(job *api.JobInfo, classes map[string]*schedulingv1.PriorityClass, otherwise int32) int32 {
	if job.PodGroup != nil {
		if class, ok := classes[job.PodGroup.Spec.PriorityClassName]; ok {
			return class.Value
		}
	}
	return otherwise
}

// addJobs adds the kept copies to a snapshot that has the new ones, and keeps these.
func (s *Snapshotter) addJobs(cache *vccache.SchedulerCache, snapshot *api.ClusterInfo) {
	for id, clone := range snapshot.Jobs {
		s.jobs[id] = newJobClone(cache.Jobs[id], clone)
	}
	for id, kept := range s.jobs {
		snapshot.Jobs[id] = kept.clone
	}
}

// NodeMap is what Kubernetes' scheduler plugins see of the nodes of the last snapshot.
func (s *Snapshotter) NodeMap() map[string]fwk.NodeInfo {
	nodes := make(map[string]fwk.NodeInfo, len(s.nodes))
	for name, kept := range s.nodes {
		nodes[name] = kept.kubeNode()
	}
	return nodes
}

// WithinBounds is true if the job of the snapshot is one that is as it was when it was found to have too much of nothing. Without a Snapshotter none is.
func (s *Snapshotter) WithinBounds(id api.JobID, job *api.JobInfo) bool {
	if s == nil {
		return false
	}
	kept := s.jobs[id]
	return kept != nil && kept.clone == job && kept.withinBounds
}

// NoteWithinBounds notes that the job of the snapshot has too much of nothing.
func (s *Snapshotter) NoteWithinBounds(id api.JobID, job *api.JobInfo) {
	if s == nil {
		return
	}
	if kept := s.jobs[id]; kept != nil && kept.clone == job {
		kept.withinBounds = true
	}
}
