// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"slices"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/util"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// maxReserveFailures bounds how many further nodes are tried for a task after a plugin refused a node that had passed
// the filters, for example because the plugin could not reserve a device there. Each refused placement is undone. After
// four refusals, the cause is the plugin and not the nodes.
const maxReserveFailures = 3

// placeBatches places the batches one after the other. It stops when the sub-job is ready, or when a task fits nowhere and the
// sub-job cannot be ready without it. stopped reports whether it stopped before the last batch.
func (p *placer) placeBatches(batches []Batch) (stopped bool) {
	for _, b := range batches {
		if p.placeBatch(b.tasks, b.following) {
			return true
		}
		if p.done {
			return false
		}
	}
	return false
}

func (p *placer) placeBatch(tasks []*api.TaskInfo, following int) (stopped bool) {
	first := slices.IndexFunc(tasks, p.wanted)
	if first < 0 {
		return false
	}
	tasks = tasks[first:]
	cache, err := p.run.Finder.Cache(tasks[0])
	if err != nil {
		return p.noteNonePlaced(tasks[:1], p.everywhere(err)) || len(tasks) > 1 && p.placeBatch(tasks[1:], following)
	}
	shares := p.part.distribute(cache.Results, len(tasks)+following, p.changes)
	if last := shares[len(shares)-1]; last.set != p.part.Scope.Set {
		shares = append(shares, share{p.part.Scope.Set, 0})
	}
	shares[len(shares)-1].tasks = len(tasks)
	var errs *api.FitErrors
	for _, share := range shares {
		var dealt int
		dealt, errs, stopped = p.fill(tasks, share, cache)
		tasks = tasks[dealt:]
		if stopped || p.done || len(tasks) == 0 {
			return stopped
		}
	}
	return p.noteNonePlaced(tasks, errs)
}

// noteNonePlaced records that these tasks, which are of one class, fit nowhere. It reports whether the trial is to
// stop. By upstream's rule (JobInfo.NeedContinueAllocating, https://github.com/volcano-sh/volcano/pull/3430), it stops
// if the sub-job cannot be ready without these tasks. An example is a role that does not reach its minimum.
func (p *placer) noteNonePlaced(tasks []*api.TaskInfo, errs *api.FitErrors) (stopped bool) {
	p.blocked = append(p.blocked, p.run.Finder.Class(tasks[0]))
	p.noteNotPlaced(tasks[0], errs)
	if !p.allClasses && !p.job().NeedContinueAllocating(p.part.SubJob.UID) {
		return true
	}
	for _, task := range tasks[1:] {
		p.noteNotPlaced(task, errs)
	}
	return false
}

// fill places tasks of one class on the nodes of the share, at most as many as the share says. dealt is how many of the
// tasks it placed or skipped. errs are the filter results of the next task, if that task fits nowhere. fill stops at a
// task whose pre-predicate fails and without which the sub-job cannot be ready.
func (p *placer) fill(tasks []*api.TaskInfo, to share, cache *feasible.ClassCache) (dealt int, errs *api.FitErrors, stopped bool) {
	where := feasible.Where{Set: to.set, ChosenBy: p.part.Scope.ChosenBy}
	placed := 0
	for i, task := range tasks {
		if placed == to.tasks {
			return i, nil, false
		}
		if !p.wanted(task) {
			continue
		}
		if full, errs := p.run.Finder.Candidates(task, cache, where).Full(p.part.IdleOnly); full {
			return i, errs, false
		}
		if err := p.run.Finder.PrePredicate(task); err != nil {
			if p.noteNonePlaced([]*api.TaskInfo{task}, p.everywhere(err)) {
				return i, nil, true
			}
			continue
		}
		ok, errs := p.placeTask(task, cache, where)
		if !ok {
			return i, errs, false
		}
		placed++
		if p.ready() {
			p.done = true
			return i + 1, nil, false
		}
	}
	return len(tasks), nil, false
}

// placeTask places the task on the best node that passes the filters. If a plugin then refuses the placement, for
// example because it cannot reserve a device there, placeTask tries the next best node.
func (p *placer) placeTask(task *api.TaskInfo, cache *feasible.ClassCache, where feasible.Where) (bool, *api.FitErrors) {
	if p.part.SubJob.WithNetworkTopology() {
		task.JobAllocatedHyperNode = p.hyperNode
	}
	var skip map[int32]bool
	for {
		c, ok, errs := p.run.Finder.Choose(task, cache, where, p.part.IdleOnly, skip)
		if !ok {
			return false, errs
		}
		err := p.placeOn(task, cache, c)
		if err == nil {
			return true, nil
		}
		if skip == nil {
			skip = map[int32]bool{}
		}
		skip[c.Node] = true
		if len(skip) > maxReserveFailures {
			errs := api.NewFitErrors()
			for node := range skip {
				errs.SetNodeError(p.run.Index.Nodes[node].Name, err)
			}
			return false, errs
		}
	}
}

// placeOn places the task on the chosen node. An error says why a plugin refuses the node nevertheless.
func (p *placer) placeOn(task *api.TaskInfo, cache *feasible.ClassCache, c feasible.Choice) error {
	err := p.verify(task, cache, c)
	if err == nil {
		err = p.changes.assign(task, c)
	}
	if err == nil {
		p.followHyperNode(task)
		return nil
	}
	klog.V(3).InfoS("Placing a task on a node that passed the filters failed", "pod", klog.KObj(task.Pod),
		"node", p.run.Index.Nodes[c.Node].Name, "err", err)
	if p.unreserved[task.UID] == nil {
		p.unreserved[task.UID] = map[string]int{}
	}
	p.unreserved[task.UID][feasible.ShortReason(err)]++
	return err
}

// verify calls the plugins with cached filter results again for the task itself, if the task has claims or devices. In
// that call, some plugins choose the devices that they then reserve.
func (p *placer) verify(task *api.TaskInfo, cache *feasible.ClassCache, c feasible.Choice) error {
	if !framework.HasClaims(task.Pod) && len(state.Devices(task, p.run.Index.Nodes[c.Node])) == 0 {
		return nil
	}
	return p.run.Finder.AskCachedAgain(task, cache, c.Node)
}

// followHyperNode updates the HyperNode that contains the placed tasks. Upstream's scores of nodes for the next task
// depend on this HyperNode, so that a gang that only prefers proximity stays together
// (https://github.com/volcano-sh/volcano/issues/4343).
func (p *placer) followHyperNode(task *api.TaskInfo) {
	if !p.part.SubJob.WithNetworkTopology() {
		return
	}
	ssn := p.run.Session
	of := util.FindHyperNodeForNode(task.NodeName, ssn.RealNodesList, ssn.HyperNodesTiers, ssn.HyperNodesSetByTier)
	switch {
	case of == "":
	case p.hyperNode == "":
		p.hyperNode = of
	default:
		p.hyperNode = ssn.HyperNodes.GetLCAHyperNode(of, p.hyperNode)
	}
}

// noteNotPlaced records why the task fits nowhere, and that its role has failed. Nil errs mean that nodes have room only
// once resources are released.
func (p *placer) noteNotPlaced(task *api.TaskInfo, errs *api.FitErrors) {
	NoteNotPlaced(p.job(), task, errs)
	if task.TaskRole != "" {
		p.failed[task.TaskRole] = true
	}
}

// NoteNotPlaced records in the job why the task fits nowhere. Nil errs mean that nodes have room only once resources are
// released.
func NoteNotPlaced(job *api.JobInfo, task *api.TaskInfo, errs *api.FitErrors) {
	if errs == nil {
		errs = api.NewFitErrors()
		errs.SetError("no node has enough free resources until pods terminate")
	}
	job.NodesFitErrors[task.UID] = errs
}

// everywhere returns the error of a pre-predicate as the filter result of every node.
func (p *placer) everywhere(err error) *api.FitErrors {
	p.reason = err.Error()
	errs := api.NewFitErrors()
	for _, node := range p.part.Scope.Set.Nodes {
		errs.SetNodeError(p.run.Index.Nodes[node].Name, err)
	}
	return errs
}
