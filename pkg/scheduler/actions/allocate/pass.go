// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/util"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// maxRefusals bounds how many nodes are tried for a task when plugins that accepted a node fail to reserve what it needs.
const maxRefusals = 3

// pass places the tasks of one sub-job on a site until the sub-job is ready.
type pass struct {
	*attempt
	job    *api.JobInfo
	subJob *api.SubJobInfo
	queue  *api.QueueInfo
	site   site
	// now leaves out nodes whose resources are still being released.
	now bool
	// lacking is how many tasks must be placed before the sub-job can be ready; until then it need not be asked.
	lacking int
	// compare orders tasks by rank; nil for task order.
	compare func(l, r *api.TaskInfo) int
	// hyperNode is the lowest HyperNode with all tasks placed, for tasks with network topology.
	hyperNode string
	done      bool
	// blocked are the kinds that found no room, in the order in which they did.
	blocked []*kind
	// refused are the tasks their queue has no room for, failed the roles of tasks that fit nowhere.
	refused map[api.TaskID]bool
	failed  map[string]bool
	// patient goes on with further kinds although the sub-job cannot be ready without a task that fits nowhere.
	patient bool
	// halt is why a pre-predicate refused a task.
	halt string
}

// ready says whether enough is placed.
func (p *pass) ready() bool {
	return len(p.placed) >= p.lacking && p.a.subJobReady(p.job, p.subJob)
}

// batch is tasks of one kind, in the order in which they are placed.
type batch struct {
	kind  *kind
	tasks []*api.TaskInfo
	// size is the dominant share of one task in the site's resources.
	size float64
	// following is how many such tasks would be as much as all that is placed after the batch.
	following int
}

// arrangement is the order in which an attempt places batches.
type arrangement struct {
	// order orders batches; nil leaves them in task order.
	order func(l, r batch) int
	// anyOrder lets order put tasks before others that come first in task order.
	anyOrder bool
	// byRank places equals in task order by rank, instead of kind by kind.
	byRank bool
}

// batches divides tasks into batches. Tasks that plugins tell apart in task order stay in that order, unless any will do;
// among equals batches come as arranged. Tasks of a batch come by rank.
func (p *pass) batches(tasks []*api.TaskInfo, arranged arrangement) []batch {
	var out []batch
	for start := 0; start < len(tasks); {
		end := start + 1
		for end < len(tasks) && (arranged.anyOrder || p.a.ssn.TaskCompareFns(tasks[start], tasks[end]) == 0) {
			end++
		}
		equals := slices.Clone(tasks[start:end])
		if p.compare != nil {
			slices.SortStableFunc(equals, p.compare)
		}
		if arranged.byRank {
			out = append(out, p.stretches(equals)...)
		} else {
			out = append(out, p.kinds(equals, arranged.order)...)
		}
		start = end
	}
	following := 0.0
	for i, b := range slices.Backward(out) {
		if b.size > 0 {
			out[i].following = int(math.Ceil(following / b.size))
		}
		following += b.size * float64(len(b.tasks))
	}
	return out
}

// kinds makes a batch of the tasks of each kind.
func (p *pass) kinds(tasks []*api.TaskInfo, order func(l, r batch) int) []batch {
	var out []batch
	at := map[*kind]int{}
	for _, task := range tasks {
		k := p.a.kindOf(task)
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out = append(out, batch{kind: k, size: p.a.dominantShare(task)})
		}
		out[i].tasks = append(out[i].tasks, task)
	}
	if order != nil {
		slices.SortStableFunc(out, order)
	}
	return out
}

// stretches makes a batch of each stretch of tasks of one kind.
func (p *pass) stretches(tasks []*api.TaskInfo) []batch {
	var out []batch
	for len(tasks) > 0 {
		n := p.a.alike(tasks)
		out = append(out, batch{kind: p.a.kindOf(tasks[0]), tasks: tasks[:n], size: p.a.dominantShare(tasks[0])})
		tasks = tasks[n:]
	}
	return out
}

func largestFirst(l, r batch) int  { return cmp.Compare(r.size, l.size) }
func smallestFirst(l, r batch) int { return cmp.Compare(l.size, r.size) }

// place places the batches one after the other. It stops when the sub-job is ready, or when a task fits nowhere and the
// sub-job cannot be ready without it.
func (p *pass) place(batches []batch) (stopped bool) {
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

func (p *pass) placeBatch(tasks []*api.TaskInfo, following int) (stopped bool) {
	first := p.firstAllocatable(tasks)
	if first < 0 {
		return false
	}
	tasks = tasks[first:]
	s, err := p.a.shapeOf(tasks[0])
	if err != nil {
		return p.misfits(tasks[:1], p.everywhere(err)) || len(tasks) > 1 && p.placeBatch(tasks[1:], following)
	}
	slots := p.a.slots(p.site, s, len(tasks)+following, p.attempt)
	if last := slots[len(slots)-1]; last.domain != p.site.domain {
		slots = append(slots, slot{p.site.domain, 0})
	}
	slots[len(slots)-1].quota = len(tasks)
	var errs *api.FitErrors
	for _, sl := range slots {
		var dealt int
		dealt, errs, stopped = p.fill(tasks, sl, s)
		tasks = tasks[dealt:]
		if stopped || p.done || len(tasks) == 0 {
			return stopped
		}
	}
	return p.misfits(tasks, errs)
}

// misfits notes of equal tasks that they fit nowhere. It says whether the sub-job cannot be ready without them.
func (p *pass) misfits(tasks []*api.TaskInfo, errs *api.FitErrors) (stopped bool) {
	p.blocked = append(p.blocked, p.a.kindOf(tasks[0]))
	p.misfit(tasks[0], errs)
	if !p.patient && !p.job.NeedContinueAllocating(p.subJob.UID) {
		return true
	}
	for _, task := range tasks[1:] {
		p.misfit(task, errs)
	}
	return false
}

// firstAllocatable returns the place of the first task its queue has room for; -1 when there is none.
func (p *pass) firstAllocatable(tasks []*api.TaskInfo) int {
	return slices.IndexFunc(tasks, p.wanted)
}

// wanted says whether the task is to be placed: its queue has room for it, and no task of its role has fit nowhere.
func (p *pass) wanted(task *api.TaskInfo) bool {
	if !p.a.ssn.Allocatable(p.queue, task) {
		p.refused[task.UID] = true
		return false
	}
	if p.failed[task.TaskRole] {
		errs := api.NewFitErrors()
		errs.SetError(fmt.Sprintf("a task of the same role %q fits on no node", task.TaskRole))
		p.job.NodesFitErrors[task.UID] = errs
		return false
	}
	return true
}

// fill places tasks of the shape on the slot's domain, up to its quota. It returns how many are dealt with, and for the
// next one the verdicts when it fits nowhere. It stops at a task whose pre-predicate fails and without which the sub-job
// cannot be ready.
func (p *pass) fill(tasks []*api.TaskInfo, sl slot, s *shape) (dealt int, errs *api.FitErrors, stopped bool) {
	placed := 0
	for i, task := range tasks {
		if placed == sl.quota {
			return i, nil, false
		}
		if !p.wanted(task) {
			continue
		}
		if full, errs := p.full(task, s, sl.domain); full {
			return i, errs, false
		}
		if err := p.a.prePredicate(task); err != nil {
			if p.misfits([]*api.TaskInfo{task}, p.everywhere(err)) {
				return i, nil, true
			}
			continue
		}
		ok, errs := p.placeTask(task, s, sl.domain)
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

// full says whether no node of the domain takes the task, which is of the shape, by what is kept: then it need not be asked for.
func (p *pass) full(task *api.TaskInfo, s *shape, d *domain) (bool, *api.FitErrors) {
	f := p.a.fieldOf(s, d, task)
	switch {
	case len(f.heap) == 0:
		return true, f.fitErrors()
	case p.now && !f.rank[f.heap[0]].class.now():
		return true, nil
	default:
		return false, nil
	}
}

// placeTask puts the task on the best node of the domain. Where reserving fails the next best is tried.
func (p *pass) placeTask(task *api.TaskInfo, s *shape, d *domain) (bool, *api.FitErrors) {
	if p.subJob.WithNetworkTopology() {
		task.JobAllocatedHyperNode = p.hyperNode
	}
	var skip map[int32]bool
	for {
		c, ok, errs := p.a.choose(task, s, d, p.now, skip)
		if !ok {
			return false, errs
		}
		err := p.verify(task, s, c)
		if err == nil {
			err = p.put(task, c)
		}
		if err == nil {
			p.follow(task)
			return true, nil
		}
		klog.V(3).InfoS("A node that passed the predicates refuses a task", "pod", klog.KObj(task.Pod),
			"node", p.a.board.nodes[c.node].Name, "err", err)
		if skip == nil {
			skip = map[int32]bool{}
		}
		skip[c.node] = true
		if len(skip) > maxRefusals {
			errs := api.NewFitErrors()
			for node := range skip {
				errs.SetNodeError(p.a.board.nodes[node].Name, err)
			}
			return false, errs
		}
	}
}

// verify asks the kept predicates for the task itself where they choose, in that call, what is then reserved for it.
func (p *pass) verify(task *api.TaskInfo, s *shape, c choice) error {
	node := p.a.board.nodes[c.node]
	if !framework.HasClaims(task.Pod) && len(devices(task, node)) == 0 {
		return nil
	}
	return p.a.predicate(s.layers.kept, task, node)
}

// follow keeps the HyperNode that spans the placed tasks.
func (p *pass) follow(task *api.TaskInfo) {
	if !p.subJob.WithNetworkTopology() {
		return
	}
	ssn := p.a.ssn
	of := util.FindHyperNodeForNode(task.NodeName, ssn.RealNodesList, ssn.HyperNodesTiers, ssn.HyperNodesSetByTier)
	switch {
	case of == "":
	case p.hyperNode == "":
		p.hyperNode = of
	default:
		p.hyperNode = ssn.HyperNodes.GetLCAHyperNode(of, p.hyperNode)
	}
}

// misfit notes why a task fits nowhere; what is known already stays when there is nothing to say.
func (p *pass) misfit(task *api.TaskInfo, errs *api.FitErrors) {
	if errs == nil {
		errs = api.NewFitErrors()
		errs.SetError("no node has room before resources are released")
	}
	p.job.NodesFitErrors[task.UID] = errs
	if task.TaskRole != "" {
		p.failed[task.TaskRole] = true
	}
}

// everywhere is a pre-predicate's error as every node's verdict.
func (p *pass) everywhere(err error) *api.FitErrors {
	p.halt = err.Error()
	errs := api.NewFitErrors()
	for _, node := range p.site.domain.nodes {
		errs.SetNodeError(p.a.board.nodes[node].Name, err)
	}
	return errs
}

// dominantShare is the largest share of the cluster's resources that the task asks for.
func (a *allocation) dominantShare(task *api.TaskInfo) float64 {
	total := a.ssn.TotalResource
	share := 0.0
	add := func(request, total float64) {
		if total > 0 {
			share = max(share, request/total)
		}
	}
	add(task.InitResreq.MilliCPU, total.MilliCPU)
	add(task.InitResreq.Memory, total.Memory)
	for name, request := range task.InitResreq.ScalarResources {
		add(request, total.ScalarResources[name])
	}
	return share
}
