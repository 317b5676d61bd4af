// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// maxProbed bounds how many tasks are placed for explanations alone, in one run of the action.
const maxProbed = 2_000

// place is where a gang was tried: a node group, a HyperNode, or all nodes.
type place struct {
	name   string
	domain *domain
	group  *topology.Group
}

// explain says why the job was not placed: of each place where it may lie how many of the members that it lacks fit, and
// what stops the next. That is what was found when it was tried there, or arithmetic that equal gangs share, so it costs at
// the most a look at each node for each of a few shapes.
func (a *allocation) explain(job *api.JobInfo, sheet *sheet, groups *framework.NodeGroups) {
	if why := a.lacksBestEffort; why != "" {
		a.lacksBestEffort = ""
		a.tell(job, framework.Wait{Reason: framework.NotEnoughResources, Message: why})
		return
	}
	n, err := a.needOf(job, sheet)
	if err != nil {
		job.JobFitErrors = err.Error()
		return
	}
	if n.total == 0 {
		return
	}
	e := framework.GangExplanation{Namespace: job.Namespace, PodGroup: job.Name, Time: a.now(), Needed: n.total}
	for _, at := range a.places(groups) {
		e.Groups = append(e.Groups, a.explainPlace(job, sheet, groups, at, n))
	}
	slices.SortStableFunc(e.Groups, func(l, r framework.NodeGroupExplanation) int { return r.Fits - l.Fits })
	if groups != nil {
		e.Required = groups.Required
		for _, path := range slices.Sorted(maps.Keys(groups.Refused)) {
			e.Groups = append(e.Groups, framework.NodeGroupExplanation{Group: path, Refused: groups.Refused[path]})
		}
	}
	further := 0
	if a.jobReady(job) {
		for _, tasks := range sheet.tasks {
			further += len(tasks)
		}
	}
	e.Message = compact(e, further) + a.tooLarge(n)
	found := carried{a.print, e, framework.Wait{Reason: reasonOfWait(e), Message: e.Message}}
	if groups == nil {
		a.tell(job, found.wait)
		return
	}
	a.say(job, sheet, found)
}

// say tells why a gang that is to be placed in groups was not.
func (a *allocation) say(job *api.JobInfo, sheet *sheet, found carried) {
	told := func(g framework.NodeGroupExplanation) bool { return g.Stopped != "" } // by the queue or a plugin, which may change
	if found.print != 0 && !slices.ContainsFunc(found.explanation.Groups, told) {
		a.memory.gangs[job.UID] = found
	}
	a.tell(job, found.wait)
	a.ssn.Explain(job.UID, found.explanation)
	errs := api.NewFitErrors() // of every task: the group is what none of them fits into
	errs.SetError(found.explanation.Message)
	for _, tasks := range sheet.tasks {
		for _, task := range tasks {
			job.NodesFitErrors[task.UID] = errs
		}
	}
}

// tell keeps why the job is not placed.
func (a *allocation) tell(job *api.JobInfo, wait framework.Wait) {
	job.JobFitErrors = wait.Message
	a.ssn.ExplainWait(job.UID, wait)
}

// reasonOfWait is the queue's, when that stops the gang wherever it may lie.
func reasonOfWait(e framework.GangExplanation) string {
	reason := ""
	for _, g := range e.Groups {
		switch {
		case g.Refused != "":
		case g.Queue == "":
			return framework.NotEnoughResources
		default:
			reason = g.Queue
		}
	}
	return cmp.Or(reason, framework.NotEnoughResources)
}

// places lists where the job may lie: in node groups, in the HyperNodes it was tried in, or anywhere.
func (a *allocation) places(groups *framework.NodeGroups) []place {
	var out []place
	if groups != nil {
		for _, group := range groups.Candidates {
			out = append(out, place{group.Path(), a.board.group(group), group})
		}
		return out
	}
	for d := range a.tried {
		if d.name != "" {
			out = append(out, place{d.name, d, nil})
		}
	}
	slices.SortFunc(out, func(l, r place) int {
		return cmp.Or(cmp.Compare(l.name, r.name), len(r.domain.nodes)-len(l.domain.nodes))
	})
	out = slices.CompactFunc(out, func(l, r place) bool { return l.name == r.name }) // the other is without nodes to be avoided
	if len(out) == 0 {
		out = append(out, place{domain: a.board.everything})
	}
	return out
}

// explainPlace says what happened in a trial placement there. A place that arithmetic left out is tried for that where
// arithmetic does not tell how many fit.
func (a *allocation) explainPlace(job *api.JobInfo, sheet *sheet, groups *framework.NodeGroups, at place, n *need) framework.NodeGroupExplanation {
	d := at.domain
	e := framework.NodeGroupExplanation{Group: at.name, Nodes: len(d.nodes)}
	_, attempted := a.stops[d]
	numbers := at.group != nil && a.demand != nil && !attempted && a.plainIn(groups.Plugin)
	if at.group != nil && !n.countable() && !numbers {
		a.probe(job, sheet, groups, at.group)
	}
	var counted *refusals
	if numbers {
		s := a.estimate(d)
		e.Fits, counted = min(s.placed, n.total), s.refusals
	} else if tried, ok := a.stops[d]; ok {
		e.Fits, e.Stopped, e.Queue, counted = min(tried.placed, n.total), tried.why, tried.queue, tried.refusals
	} else {
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
		counted = a.refusals(short, d)
	}
	if counted != nil {
		e.Reasons, e.Filled, e.FilledOf = counted.reasons, counted.filled, counted.filledOf()
	}
	return e
}

// plainIn says whether the demand is plain in the plugin's groups, and its kinds' shapes are known.
func (a *allocation) plainIn(plugin string) bool {
	a.inside = plugin
	defer func() { a.inside = "" }()
	return a.plain(a.demand) && a.demand.shaped(a) == nil
}

// tooLarge says that a member that the minimum needs asks for more than any node has.
func (a *allocation) tooLarge(n *need) string {
	largest := a.board.largestNode()
	for _, s := range n.shapes {
		missing := a.exceedsNodes(s.task)
		if n.counts[s] == 0 || len(missing) == 0 {
			continue
		}
		var parts []string
		for _, name := range missing[:min(len(missing), maxReasons)] {
			parts = append(parts, fmt.Sprintf("%s %s of at most %s", name,
				framework.AmountOf(s.task.InitResreq, name), framework.AmountOf(largest, name)))
		}
		return "; a member asks for more than any node has: " + strings.Join(parts, ", ")
	}
	return ""
}

// exceedsNodes are the resources, by name, of which the task asks for more than any node has.
func (a *allocation) exceedsNodes(task *api.TaskInfo) []string {
	fits, missing := task.InitResreq.LessEqualWithResourcesName(a.board.largestNode(), api.Zero)
	if fits {
		return nil
	}
	slices.Sort(missing)
	return missing
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

// stop is how far an attempt came in a domain, and what stopped it: nodes, or else a text, which is the queue's or a
// pre-predicate's.
type stop struct {
	placed   int
	refusals *refusals
	why      string
	// queue is the reason when it is the queue's text.
	queue string
}

// noteStop keeps, for the explanation, the attempt that came furthest in the domain.
func (p *pass) noteStop() {
	d := p.site.domain
	if former, ok := p.a.stops[d]; ok && len(p.placed) <= former.placed {
		return
	}
	s := stop{placed: len(p.placed), why: p.halt}
	if s.why == "" {
		p.stopped(&s)
	}
	p.a.stops[d] = s
}

// stopped finds what stops the next task: nodes, when none takes it, or its queue.
func (p *pass) stopped(s *stop) {
	placed := map[int32]bool{}
	for _, t := range p.placed {
		placed[p.a.board.index[t.task.NodeName]] = true
	}
	if task := p.firstOf(func(uid api.TaskID) bool { return p.job.NodesFitErrors[uid] != nil }); task != nil {
		s.refusals = p.a.stopRefusals(task, p.site.domain, placed)
		if s.refusals == nil || len(s.refusals.reasons) == 0 && s.refusals.filled == 0 {
			s.why = p.job.NodesFitErrors[task.UID].Error()
		}
		return
	}
	task := p.firstOf(func(uid api.TaskID) bool { return p.refused[uid] })
	if task == nil {
		return
	}
	if p.a.exceedsNodes(task) != nil { // nobody has looked at nodes for it
		_, _ = p.a.shapeOf(task) // of one that has none its queue is told
	}
	if s.refusals = p.a.stopRefusals(task, p.site.domain, placed); s.refusals != nil && s.refusals.takes == 0 {
		return
	}
	wait := p.a.ssn.QueueWait(p.queue, task.InitResreq, func() bool { return !p.a.ssn.Allocatable(p.queue, task) })
	s.why, s.queue, s.refusals = wait.Message, wait.Reason, nil
}

// firstOf is the first by name of the job's tasks that are such; nil when none is.
func (p *pass) firstOf(such func(api.TaskID) bool) *api.TaskInfo {
	var first *api.TaskInfo
	for uid, task := range p.job.Tasks {
		if (first == nil || task.Name < first.Name) && such(uid) {
			first = task
		}
	}
	return first
}
