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

// Copies keeps the copies of nodes and jobs that the last session was given, and gives them to the next session where they are as good as new:
//
//   - The generation of the source is the one that was copied. The keeper of the source raises it with every change.
//   - The session has left the copy as it was made. Fields that sessions write all the time and that follow from one field of the source, such
//     as the status of a PodGroup, are reset instead.
//
// After a session that is known to change tasks only as sessions do (Trust), the tasks of a copy are not compared as long as its sums and counts are
// as they were made, but for one copy in wholeEvery, and for jobs with pending tasks.
//
// What a copy shares with its source, such as pods, is read-only for sessions and is not compared.
//
// Copies serves one session at a time: the copies belong to a session until the next one opens.
type Copies struct {
	nodes map[string]*nodeClone
	jobs  map[api.JobID]*jobClone
	// ignored are the resources that upstream leaves out of nodes and pods. All copies depend on them.
	ignored []string
	// trusted reports whether the session that has the copies is known to change tasks only as sessions do.
	trusted bool
	// rounds counts how often nodes and jobs were given.
	nodeRounds, jobRounds uint64
}

// wholeEvery is how many times a copy is given until all of it is compared, whatever the session is known to do. The number bounds how long a copy can stay
// that a plugin has changed against what is known of it.
const wholeEvery = 16

// Trust records that the session which has the copies has ended, and that it has changed placed tasks only by the methods of jobs and nodes. These
// change sums and counts, unless what they did was taken back.
func (c *Copies) Trust() { c.trusted = !devicesOn() }

// Settle ends what Trust began, once nodes and jobs are given to the next session.
func (c *Copies) Settle() { c.trusted = false }

// compares reports whether the whole of a copy of the generation is compared in the round.
func (c *Copies) compares(generation, round uint64) bool {
	return !c.trusted || (generation+round)%wholeEvery == 0
}

// devicesOn reports whether upstream's device code is on, which it is for the whole process.
func devicesOn() bool {
	return gpushare.GpuSharingEnable || gpushare.GpuNumberEnable || vgpu.VGPUEnable || vnpu.AscendMindClusterVNPUEnable || hami.AscendHAMiVNPUEnable
}

// NewCopies returns a Copies without any.
func NewCopies() *Copies {
	return &Copies{nodes: map[string]*nodeClone{}, jobs: map[api.JobID]*jobClone{}}
}

// Nodes returns copies of these nodes, which come with their generations. While upstream's device code is on, all are made again: its
// Clone reads from the API server what devices a node has.
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

// Jobs returns copies of these jobs, which come with their generations, with the priorities that they have now.
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

// CloneNode returns a copy of the node with all its tasks. Upstream's Clone leaves out tasks in a transaction that have no room on the node any
// more, as when the node has shrunk.
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

// NodeMap returns what Kubernetes' scheduler plugins see of the nodes that were given last.
func (c *Copies) NodeMap() map[string]fwk.NodeInfo {
	nodes := make(map[string]fwk.NodeInfo, len(c.nodes))
	for name, kept := range c.nodes {
		nodes[name] = kept.kubeNode()
	}
	return nodes
}

// WithinBounds reports whether the job is a copy that has not changed since NoteWithinBounds was called with it. A nil Copies knows of none.
func (c *Copies) WithinBounds(id api.JobID, job *api.JobInfo) bool {
	if c == nil {
		return false
	}
	kept := c.jobs[id]
	return kept != nil && kept.clone == job && kept.withinBounds
}

// NoteWithinBounds records that the job has not too much of anything.
func (c *Copies) NoteWithinBounds(id api.JobID, job *api.JobInfo) {
	if c == nil {
		return
	}
	if kept := c.jobs[id]; kept != nil && kept.clone == job {
		kept.withinBounds = true
	}
}
