// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"iter"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/api/devices/ascend/hami"
	"volcano.sh/volcano/pkg/scheduler/api/devices/ascend/mindcluster/ascend310p/vnpu"
	"volcano.sh/volcano/pkg/scheduler/api/devices/nvidia/gpushare"
	"volcano.sh/volcano/pkg/scheduler/api/devices/nvidia/vgpu"
)

// Copies keeps the copies of nodes and jobs that the last session had. It uses a copy again for the next session if
//
//   - the source, a node or job in the books, still has the generation that was copied. The books raise the generation
//     with every change; and
//   - the session has not changed the copy. Fields that sessions write all the time and that follow from one field of
//     the source, such as the status of a PodGroup, are reset instead.
//
// After a session that is known to change tasks and nodes only through methods of jobs and nodes (Trust), less is
// compared. The tasks of a copy count as unchanged if their number and the sums of their requests are unchanged. The
// capacity, the load and the images of a node are not compared. Exceptions: each copy is compared in full in one of
// wholeEvery sessions, and the tasks of a job with pending tasks are always compared.
//
// Objects that a copy shares with its source, such as pods, are read-only for sessions and are not compared.
//
// Copies serves one session at a time: the copies belong to a session until the next session opens.
type Copies struct {
	nodes map[string]*nodeClone
	jobs  map[api.JobID]*jobClone
	// ignored are the resources that upstream leaves out of nodes and pods. If the list changes, all nodes are copied
	// again.
	ignored []string
	// trusted reports whether the session with the copies is known to change tasks only through methods of jobs and
	// nodes.
	trusted bool
	// nodeRounds counts the calls of Nodes, and jobRounds the calls of Jobs.
	nodeRounds, jobRounds uint64
}

// wholeEvery is after how many sessions a copy is compared in full, even if the sessions are trusted. It bounds how
// long a copy is used that a plugin changed in an unexpected way.
const wholeEvery = 16

// Trust records that the last session has ended, and that it has changed placed tasks only through the methods of jobs
// and nodes. Unless such a change was undone, it shows in a copy's number of tasks or sums of requests. So the next
// calls of Nodes and Jobs need not compare each task of each copy.
func (c *Copies) Trust() { c.trusted = !devicesOn() }

// Distrust reverts Trust: without another call of Trust, copies are compared in full. It is called when nodes and jobs
// have been given to the next session.
func (c *Copies) Distrust() { c.trusted = false }

// compares reports whether a copy is compared in full. Without a call of Trust for the last session, it always is;
// otherwise in one of wholeEvery calls of Nodes or Jobs. generation is the generation of the copy's source, and round
// is the number of these calls. The sum of both spreads the full comparisons over the calls.
func (c *Copies) compares(generation, round uint64) bool {
	return !c.trusted || (generation+round)%wholeEvery == 0
}

// devicesOn reports whether upstream's device code is enabled. It is enabled or disabled for the whole process.
func devicesOn() bool {
	return gpushare.GpuSharingEnable || gpushare.GpuNumberEnable || vgpu.VGPUEnable || vnpu.AscendMindClusterVNPUEnable || hami.AscendHAMiVNPUEnable
}

// NewCopies returns an empty Copies.
func NewCopies() *Copies {
	return &Copies{nodes: map[string]*nodeClone{}, jobs: map[api.JobID]*jobClone{}}
}

// Nodes returns copies of the given nodes, which come with their generations. While upstream's device code is enabled,
// all nodes are copied again, because upstream's Clone reads a node's devices from the API server.
func (c *Copies) Nodes(all iter.Seq2[*api.NodeInfo, uint64]) map[string]*api.NodeInfo {
	ignored := api.IgnoredDevicesList.List()
	again := devicesOn() || !slices.Equal(ignored, c.ignored)
	c.ignored = slices.Clone(ignored)
	c.nodeRounds++
	kept := make(map[string]*nodeClone, len(c.nodes))
	given := make(map[string]*api.NodeInfo, len(c.nodes))
	for source, generation := range all {
		k := c.nodes[source.Name]
		if k == nil || again || k.version != generation || !k.pristine(c.compares(generation, c.nodeRounds)) {
			k = newNodeClone(source, CloneNode(source), k)
			k.version = generation
		}
		kept[source.Name], given[source.Name] = k, k.clone
	}
	c.nodes = kept
	return given
}

// Jobs returns copies of the given jobs, which come with their generations. Each copy gets the job's current priority.
func (c *Copies) Jobs(all iter.Seq2[*api.JobInfo, uint64], priority func(*api.JobInfo) int32) map[api.JobID]*api.JobInfo {
	c.jobRounds++
	kept := make(map[api.JobID]*jobClone, len(c.jobs))
	given := make(map[api.JobID]*api.JobInfo, len(c.jobs))
	for source, generation := range all {
		k := c.jobs[source.UID]
		if k == nil || k.version != generation || !k.pristine(c.compares(generation, c.jobRounds)) {
			k = newJobClone(source, source.Clone())
			k.version = generation
		}
		k.clone.Priority = priority(source)
		kept[source.UID], given[source.UID] = k, k.clone
	}
	c.jobs = kept
	return given
}

// CloneNode returns a copy of the node with all its tasks. Upstream's Clone leaves out tasks with a bind transaction if
// they no longer fit on the node, for example because the node has shrunk.
func CloneNode(source *api.NodeInfo) *api.NodeInfo {
	clone := source.Clone()
	clone.Name = source.Name
	clone.NumaInfo = nil
	if len(clone.Tasks) == len(source.Tasks) {
		return clone
	}
	for key, task := range source.Tasks {
		if clone.Tasks[key] != nil {
			continue
		}
		own := task.Clone()
		own.Status = api.Bound
		if err := clone.AddTask(own); err == nil {
			clone.Tasks[key].Status = task.Status
		}
	}
	return clone
}

// Fits reports whether NoteFits was called with the node, and the node is a copy that has not changed since then. A nil
// Copies returns false.
func (c *Copies) Fits(node *api.NodeInfo) bool {
	if c == nil {
		return false
	}
	kept := c.nodes[node.Name]
	return kept != nil && kept.clone == node && kept.fits
}

// NoteFits records that the tasks on the node together request no more than the node has.
func (c *Copies) NoteFits(node *api.NodeInfo) {
	if c == nil {
		return
	}
	if kept := c.nodes[node.Name]; kept != nil && kept.clone == node {
		kept.fits = true
	}
}

// NodeMap returns the nodes that Nodes returned last, in the form that Kubernetes' scheduler plugins read.
func (c *Copies) NodeMap() map[string]fwk.NodeInfo {
	nodes := make(map[string]fwk.NodeInfo, len(c.nodes))
	for name, kept := range c.nodes {
		nodes[name] = kept.kubeNode()
	}
	return nodes
}

// WithinBounds reports whether the job's PodGroup and pods are known not to be too large: NoteWithinBounds was called
// with the job, and the job is a copy that has not changed since. It returns false for a nil Copies.
func (c *Copies) WithinBounds(id api.JobID, job *api.JobInfo) bool {
	if c == nil {
		return false
	}
	kept := c.jobs[id]
	return kept != nil && kept.clone == job && kept.withinBounds
}

// NoteWithinBounds records that package quarantine has found neither the job's PodGroup nor its pods too large.
func (c *Copies) NoteWithinBounds(id api.JobID, job *api.JobInfo) {
	if c == nil {
		return
	}
	if kept := c.jobs[id]; kept != nil && kept.clone == job {
		kept.withinBounds = true
	}
}
