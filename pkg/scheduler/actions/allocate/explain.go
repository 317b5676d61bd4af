package allocate

import (
	"maps"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// maxProbed bounds how many tasks are placed for explanations alone, in one run of the action.
const maxProbed = 2_000

// explain says, group by group, how many of the members that the gang lacks fit and what stops the next.
func (a *allocation) explain(job *api.JobInfo, sheet *sheet, groups *framework.NodeGroups, n *need) {
	e := framework.GangExplanation{
		Namespace: job.Namespace, PodGroup: job.Name, Time: a.now(), Needed: n.total, Required: groups.Required,
	}
	for _, group := range groups.Candidates {
		e.Groups = append(e.Groups, a.explainGroup(job, sheet, groups, group, n))
	}
	slices.SortStableFunc(e.Groups, func(l, r framework.NodeGroupExplanation) int { return r.Fits - l.Fits })
	for _, path := range slices.Sorted(maps.Keys(groups.Refused)) {
		e.Groups = append(e.Groups, framework.NodeGroupExplanation{Group: path, Refused: groups.Refused[path]})
	}
	e.Message = compact(e, a.jobReady(job))
	a.ssn.Explain(job.UID, e)
	job.JobFitErrors = e.Message
	errs := api.NewFitErrors() // of every task: the group is what none of them fits into
	errs.SetError(e.Message)
	for _, tasks := range sheet.tasks {
		for _, task := range tasks {
			job.NodesFitErrors[task.UID] = errs
		}
	}
}

// explainGroup says what happened in a trial placement in the group. One that arithmetic left out is tried for that where
// arithmetic does not tell how many fit.
func (a *allocation) explainGroup(job *api.JobInfo, sheet *sheet, groups *framework.NodeGroups, group *topology.Group, n *need) framework.NodeGroupExplanation {
	d := a.board.group(group)
	e := framework.NodeGroupExplanation{Group: group.Path(), Nodes: len(d.nodes)}
	if !n.countable() {
		a.probe(job, sheet, groups, group)
	}
	if tried, ok := a.stops[d]; ok {
		e.Fits, e.Stopped, e.Reasons = tried.placed, tried.why, tried.reasons
		return e
	}
	e.AtMost = !n.countable()
	for _, s := range n.shapes {
		e.Fits += min(a.capacity(s, d), n.counts[s]+n.further[s])
	}
	e.Fits = min(e.Fits, n.total)
	short := n.shapes[0]
	for _, s := range n.shapes {
		if a.capacity(s, d) < n.counts[s] {
			short = s
			break
		}
	}
	e.Reasons = a.reasons(short, d)
	return e
}

// countable says whether the members that fit into a group can be counted node by node: they are alike and do not exclude
// each other.
func (n *need) countable() bool {
	for s, count := range n.beyond {
		if count > 0 && n.counts[s] == 0 {
			return false
		}
	}
	return len(n.shapes) == 1 && !n.unknown && !n.coupled() && len(hostPorts(n.shapes[0].task.Pod)) == 0
}

// probe places as many of the job's tasks in the group as it can, the smallest first, and takes them back, to note what stops
// the next. There is a bound to that, and jobs whose sub-jobs choose among HyperNodes are not probed.
func (a *allocation) probe(job *api.JobInfo, sheet *sheet, groups *framework.NodeGroups, group *topology.Group) {
	uid := job.DefaultSubJobID()
	tasks := sheet.tasks[uid]
	if a.probed+len(tasks) > maxProbed || job.ContainsHardTopology() || job.ContainsSubJobPolicy() {
		return
	}
	a.probed += len(tasks)
	a.inside = groups.Plugin
	defer func() { a.inside = "" }()
	p := a.newPass(job, job.SubJobs[uid], a.groupSite(group, nil), true)
	p.lacking, p.patient = a.lacking(job, p.subJob, len(tasks)), true
	p.place(p.batches(tasks, arrangement{order: smallestFirst, anyOrder: true}))
	if b := p.end(nil); b.outcome != misfit {
		b.discard()
	}
}

// reasons counts the nodes of the domain by what stops the next task of the shape there. Gangs of one shape share the
// count until a node of the domain changes.
func (a *allocation) reasons(s *shape, d *domain) map[string]int {
	r := a.roomOf(s, d)
	if r.reasons != nil {
		return r.reasons
	}
	r.reasons = map[string]int{}
	for _, node := range d.nodes {
		sm := a.ask(s, node)
		info := a.board.nodes[node]
		switch {
		case sm.err != nil:
			for _, reason := range reasonsOf(sm.err) {
				r.reasons[reason]++
			}
		case sm.copies == 0:
			_, missing := s.task.InitResreq.LessEqualWithResourcesName(info.Idle, api.Zero)
			r.reasons["short of "+slices.Min(missing)+" until it is released"]++
		default: // it takes some, and then is full
			r.reasons[a.fullReason(s, info, sm.copies)]++
		}
	}
	return r.reasons
}

// stopReasons counts the nodes of the domain by what stops the task there as things stand in an attempt.
func (a *allocation) stopReasons(task *api.TaskInfo, job *api.JobInfo, d *domain) map[string]int {
	s := a.kindOf(task).shape
	if s == nil {
		return nil
	}
	f := a.fieldOf(s, d, job)
	if len(f.ofJob) == 0 && len(s.layers.live) == 0 && len(a.exclusions.against(task)) == 0 {
		return a.reasons(s, d)
	}
	reasons := map[string]int{}
	for _, node := range d.nodes {
		err := f.verdict(node)
		if err == nil {
			err = a.liveVerdict(task, s, node)
		}
		if err != nil {
			for _, reason := range reasonsOf(err) {
				reasons[reason]++
			}
		}
	}
	return reasons
}

// fullReason says what a node is short of after it has taken the copies that fit.
func (a *allocation) fullReason(s *shape, node *api.NodeInfo, copies int32) string {
	left := node.Idle.Clone()
	for range copies {
		left.SubWithoutAssert(s.task.InitResreq)
	}
	if _, short := s.task.InitResreq.LessEqualWithResourcesName(left, api.Zero); len(short) > 0 {
		return "short of " + slices.Min(short)
	}
	return "full"
}
