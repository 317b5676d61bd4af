// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"maps"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/api/devices/ascend/hami"
	"volcano.sh/volcano/pkg/scheduler/api/devices/ascend/mindcluster/ascend310p/vnpu"
	"volcano.sh/volcano/pkg/scheduler/api/devices/nvidia/gpushare"
	"volcano.sh/volcano/pkg/scheduler/api/devices/nvidia/vgpu"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/upstream"
)

// Copies keeps the copies of nodes and jobs that the last session had. It uses a copy again for the next session if
//
//   - the source, a node or job in the books, still has the generation that was copied. The books raise the generation
//     with every change; and
//   - the session has not changed the copy. Fields that sessions write all the time and that follow from one field of
//     the source, such as the status of a PodGroup, are reset instead.
//
// After a session that is known to change tasks and nodes only through methods of jobs and nodes (Trust), less is
// compared. Only nodes and jobs that the session has changed, or whose source has changed, are looked at. The tasks of a
// copy count as unchanged if their number and the sums of their requests are unchanged. The capacity, the load and the
// images of a node are not compared. Exceptions: each copy is compared in full in one of wholeEvery sessions. A job that
// does not simply run (jobClone.steady) is looked at after every session, and the tasks of a job with pending tasks are
// always compared. Of every other job, Copies looks at the fields that sessions write without changing tasks.
//
// Objects that a copy shares with its source, such as pods, are read-only for sessions and are not compared.
//
// Copies serves one session at a time: the copies belong to a session until the next session opens.
type Copies struct {
	nodes map[string]*nodeClone
	// given and kube are the copies of nodes, and their form that Kubernetes' plugins read. revocable are the copies of
	// nodes with a revocable zone. unfit are the nodes for whose copy NoteFits was not called.
	given     map[string]*api.NodeInfo
	kube      map[string]fwk.NodeInfo
	revocable map[string]*api.NodeInfo
	unfit     map[string]bool
	// total is the sum of what the nodes have to allocate; nil if it must be computed.
	total *api.Resource
	jobs  map[api.JobID]*jobClone
	pods  ownPods
	// seenNode is the generation of the last change of a node that was read, and seenJob that of a job.
	seenNode, seenJob uint64
	// ignored are the resources that upstream leaves out of nodes and pods. If the list changes, all nodes are copied
	// again.
	ignored []string
	// trusted reports whether the session with the copies is known to change tasks only through methods of jobs and
	// nodes. touched are the nodes and jobs that it has changed.
	trusted bool
	touched Touched
	// nodeRounds counts the calls of Nodes, and jobRounds the calls of Jobs.
	nodeRounds, jobRounds uint64
}

// wholeEvery is after how many sessions a copy is compared in full, even if the sessions are trusted. It bounds how
// long a copy is used that a plugin changed in an unexpected way.
const wholeEvery = 16

// Touched are the nodes and jobs that a session has changed: it has placed or evicted tasks on the node, or of the job,
// even if the change was undone.
type Touched struct {
	Nodes map[string]bool
	Jobs  map[api.JobID]bool
}

// Trust records that the last session has ended, and that it has changed placed tasks only through the methods of jobs
// and nodes, of no other nodes and jobs than the touched ones. Unless such a change was undone, it shows in a copy's
// number of tasks or sums of requests. So the next calls of Nodes and Jobs need not compare each task of each copy.
func (c *Copies) Trust(touched Touched) { c.trusted, c.touched = !devicesOn(), touched }

// Distrust reverts Trust: without another call of Trust, copies are compared in full. It is called when nodes and jobs
// have been given to the next session.
func (c *Copies) Distrust() { c.trusted, c.touched = false, Touched{} }

// compares reports whether a copy is compared in full. Without a call of Trust for the last session, it always is;
// otherwise in one of wholeEvery calls of Jobs. generation is the generation of the copy's source, and round is the
// number of these calls. The sum of both spreads the full comparisons over the calls.
func (c *Copies) compares(generation, round uint64) bool {
	return !c.trusted || (generation+round)%wholeEvery == 0
}

// devicesOn reports whether upstream's device code is enabled. It is enabled or disabled for the whole process.
func devicesOn() bool {
	return gpushare.GpuSharingEnable || gpushare.GpuNumberEnable || vgpu.VGPUEnable || vnpu.AscendMindClusterVNPUEnable || hami.AscendHAMiVNPUEnable
}

// NewCopies returns an empty Copies.
func NewCopies() *Copies {
	return &Copies{
		nodes: map[string]*nodeClone{}, jobs: map[api.JobID]*jobClone{}, given: map[string]*api.NodeInfo{}, kube: map[string]fwk.NodeInfo{},
		revocable: map[string]*api.NodeInfo{}, unfit: map[string]bool{},
	}
}

// NodeSource is where Copies reads nodes.
type NodeSource interface {
	// Ready returns a node that sessions see, and its generation; nil if sessions do not see the node.
	Ready(name string) (*api.NodeInfo, uint64)
	// Registered returns the names of all nodes that Ready may return. The slice is read-only.
	Registered() []string
	// Changed returns the names of the nodes that have changed, or were dropped, after the given generation, and the
	// generation of the last change.
	Changed(after uint64) (names []string, last uint64)
}

// Nodes returns copies of the nodes, and those of them with a revocable zone. The maps belong to the caller. After a
// trusted session it looks only at nodes that have changed, that the session has touched, whose tasks request more than
// the node has, and at one of wholeEvery of the others. While upstream's device code is enabled, all nodes are copied
// again, because upstream's Clone reads a node's devices from its annotations, and may patch them in the API server
// (docs/limits.md).
func (c *Copies) Nodes(of NodeSource) (nodes, revocable map[string]*api.NodeInfo) {
	ignored := api.IgnoredDevicesList.List()
	again := devicesOn() || !slices.Equal(ignored, c.ignored)
	c.ignored = slices.Clone(ignored)
	c.nodeRounds++
	if again {
		clear(c.nodes)
		c.total = nil
	}
	changed, last := of.Changed(c.seenNode)
	c.seenNode = last
	for _, name := range changed {
		c.renew(of, name, false)
	}
	if !c.trusted || again {
		for _, name := range of.Registered() {
			c.renew(of, name, true)
		}
		return maps.Clone(c.given), maps.Clone(c.revocable)
	}
	for name := range c.touched.Nodes {
		c.renew(of, name, false)
	}
	for name := range c.unfit {
		c.renew(of, name, false)
	}
	for names, i := of.Registered(), int(c.nodeRounds%wholeEvery); i < len(names); i += wholeEvery {
		c.renew(of, names[i], true)
	}
	return maps.Clone(c.given), maps.Clone(c.revocable)
}

// renew brings the copy of the node up to date. whole compares the copy in full.
func (c *Copies) renew(of NodeSource, name string, whole bool) {
	source, generation := of.Ready(name)
	k := c.nodes[name]
	if source == nil {
		if k != nil {
			c.total = nil
		}
		delete(c.nodes, name)
		delete(c.given, name)
		delete(c.kube, name)
		delete(c.revocable, name)
		delete(c.unfit, name)
		return
	}
	if k == nil || k.version != generation || !k.pristine(whole) {
		former := k
		k = newNodeClone(source, upstream.CloneNode(source), k)
		k.version = generation
		if former == nil || !former.sums[allocatable].Is(k.clone.Allocatable) {
			c.total = nil
		}
		c.nodes[name], c.given[name], c.unfit[name] = k, k.clone, true
		if k.clone.RevocableZone != "" {
			c.revocable[name] = k.clone
		} else {
			delete(c.revocable, name)
		}
	}
	c.kube[name] = k.kubeNode()
}

// JobSource is where Copies reads jobs.
type JobSource interface {
	// Visible returns a job that sessions see, and its generation; nil if sessions do not see the job.
	Visible(id api.JobID) (*api.JobInfo, uint64)
	// Changed returns the IDs of the jobs that have changed after the given generation, or that sessions see or no longer
	// see since then, and the generation of the last change. It does not return jobs that were dropped. Such a job no
	// longer has a PodGroup.
	Changed(after uint64) (ids []api.JobID, last uint64)
}

// Jobs returns copies of the jobs. The map belongs to the caller. Each copy gets the job's current priority. After a
// trusted session, Jobs compares only the copies of jobs that the session has touched or that do not simply run, and one
// of wholeEvery of the others.
func (c *Copies) Jobs(of JobSource, priority func(*api.JobInfo) int32) map[api.JobID]*api.JobInfo {
	c.jobRounds++
	c.pods.begin(c.trusted)
	before := c.seenJob
	changed, last := of.Changed(before)
	c.seenJob = last
	for _, id := range changed {
		c.copyJob(of, id)
	}
	given := make(map[api.JobID]*api.JobInfo, len(c.jobs))
	for id, k := range c.jobs {
		if k.source.PodGroup == nil {
			delete(c.jobs, id)
			continue
		}
		if k.version <= before && !c.keepsJob(id, k) {
			k = c.copyJob(of, id)
		}
		k.clone.Priority = priority(k.source)
		given[id] = k.clone
	}
	return given
}

// copyJob copies the job again, and returns the copy. If sessions do not see the job, it drops the copy and returns nil.
func (c *Copies) copyJob(of JobSource, id api.JobID) *jobClone {
	source, generation := of.Visible(id)
	if source == nil {
		delete(c.jobs, id)
		return nil
	}
	k := newJobClone(source, CloneJob(source))
	k.version = generation
	c.jobs[id] = k
	return k
}

// keepsJob reports whether the copy of a job whose source is unchanged is used again. If so, it resets the fields that
// sessions write all the time.
func (c *Copies) keepsJob(id api.JobID, k *jobClone) bool {
	whole := c.compares(k.version, c.jobRounds)
	kept := !whole && !c.touched.Jobs[id] && k.untouched() || k.pristine(whole)
	if kept {
		k.reset()
	}
	return kept
}

// CloneJob returns a copy of the job with all its tasks, and with the minima of its PodGroup as sessions read them.
func CloneJob(source *api.JobInfo) *api.JobInfo {
	clone := source.Clone()
	binding.ApplyMinimum(clone)
	return clone
}

// Unfit returns the copies of nodes for which NoteFits was not called.
func (c *Copies) Unfit() []*api.NodeInfo {
	nodes := make([]*api.NodeInfo, 0, len(c.unfit))
	for name := range c.unfit {
		nodes = append(nodes, c.given[name])
	}
	return nodes
}

// NoteFits records that the tasks on the node, a copy, together request no more than the node has.
func (c *Copies) NoteFits(node *api.NodeInfo) {
	if c.given[node.Name] == node {
		delete(c.unfit, node.Name)
	}
}

// NodeForms are the nodes of a session in the forms that it needs beside NodeInfo: as Kubernetes' scheduler plugins read
// them, and the sum of what they have to allocate.
type NodeForms struct {
	Kube  map[string]fwk.NodeInfo
	Total *api.Resource
}

// Forms returns the other forms of the given nodes. These are the nodes that Nodes returned last; the caller may have
// removed some of them. The forms belong to the caller.
func (c *Copies) Forms(nodes map[string]*api.NodeInfo) NodeForms {
	if c.total == nil {
		c.total = totalOf(c.given)
	}
	forms := NodeForms{Kube: maps.Clone(c.kube), Total: c.total.Clone()}
	if len(nodes) < len(c.given) {
		maps.DeleteFunc(forms.Kube, func(name string, _ fwk.NodeInfo) bool { return nodes[name] == nil })
		forms.Total = totalOf(nodes)
	}
	return forms
}

func totalOf(nodes map[string]*api.NodeInfo) *api.Resource {
	total := api.EmptyResource()
	for _, node := range nodes {
		total.Add(node.Allocatable)
	}
	return total
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
