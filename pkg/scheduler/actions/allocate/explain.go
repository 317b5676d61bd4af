// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/memory"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// explainedPlace is where a gang was tried: a node group, a HyperNode, or all nodes.
type explainedPlace struct {
	name  string
	set   *nodeset.Set
	group *topology.Group
}

// explain notes why the job was not placed: of each place where it may lie how many of the members that it needs fit, and what
// stops the next. That is what was found when it was tried there, or arithmetic that equal gangs share, so it costs at the most
// a look at each node for each of a few classes.
func recordMisfit(r *Attempt) {
	if reason := r.found.bestEffortReason; reason != "" {
		r.run.recordWait(r.job, framework.Wait{Reason: framework.NotEnoughResources, Message: reason})
		return
	}
	d, err := r.demandOf()
	if err != nil {
		r.job.JobFitErrors = err.Error()
		return
	}
	if d.needed == 0 {
		return
	}
	e := framework.GangExplanation{Namespace: r.job.Namespace, PodGroup: r.job.Name, Time: r.run.now(), Needed: d.needed}
	for _, place := range explainedPlaces(r) {
		e.Groups = append(e.Groups, explainPlace(r, place, d))
	}
	slices.SortStableFunc(e.Groups, func(l, o framework.NodeGroupExplanation) int { return o.Fits - l.Fits })
	if r.groups != nil {
		e.Required = r.groups.Required
		for _, path := range slices.Sorted(maps.Keys(r.groups.Refused)) {
			e.Groups = append(e.Groups, framework.NodeGroupExplanation{Group: path, Refused: r.groups.Refused[path]})
		}
	}
	further := 0
	if r.run.progress.jobReady(r.job) {
		for _, tasks := range r.pending.tasks {
			further += len(tasks)
		}
	}
	e.Message = compact(e, further) + tooLarge(r.run, d)
	if r.gathering != nil {
		explainGathered(r, &e)
	}
	if r.found.unfinished > 0 || r.found.refusedBeyondNumbers() {
		r.found.fingerprint = 0 // what is not known to be vain is tried again
	}
	found := memory.Explanation{Fingerprint: r.found.fingerprint, Explanation: e, Wait: framework.Wait{Reason: reasonOfWait(e), Message: e.Message}}
	if r.groups == nil && r.gathering == nil {
		r.run.recordWait(r.job, found.Wait)
		rememberAnywhere(r, found)
		return
	}
	recordExplanation(r, found)
}

// rememberAnywhere keeps, for the next session, why a gang that may lie anywhere was not placed.
func rememberAnywhere(r *Attempt, found memory.Explanation) {
	if found.Fingerprint == 0 || slices.ContainsFunc(found.Explanation.Groups, changeable) {
		return
	}
	texts := map[*api.FitErrors]string{}
	for _, task := range r.pending.tasks[r.job.DefaultSubJobID()] {
		errs := r.job.NodesFitErrors[task.UID]
		if errs != nil && texts[errs] == "" {
			texts[errs] = errs.Error()
		}
		found.Tasks = append(found.Tasks, texts[errs])
	}
	r.run.memory.Gangs[found.Fingerprint] = found
}

// changeable is true of a group of which the queue's or a plugin's words are told.
func changeable(g framework.NodeGroupExplanation) bool { return g.Stopped != "" }

// recordExplanation keeps why a gang that is to be placed in groups was not, in this session and for the next.
func recordExplanation(r *Attempt, found memory.Explanation) {
	if found.Fingerprint != 0 && !slices.ContainsFunc(found.Explanation.Groups, changeable) {
		r.run.memory.Gangs[found.Fingerprint] = found
	}
	r.run.recordWait(r.job, found.Wait)
	r.run.ssn.Explain(r.job.UID, found.Explanation)
	errs := api.NewFitErrors() // of every task: the group is what none of them fits into
	errs.SetError(found.Explanation.Message)
	for _, tasks := range r.pending.tasks {
		for _, task := range tasks {
			r.job.NodesFitErrors[task.UID] = errs
		}
	}
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

// explainedPlaces lists where the job may lie: in node groups, in the HyperNodes it was tried in, or anywhere.
func explainedPlaces(r *Attempt) []explainedPlace {
	var out []explainedPlace
	if r.groups != nil {
		for _, group := range r.groups.Candidates {
			out = append(out, explainedPlace{group.Path(), r.run.index.Group(group), group})
		}
		return out
	}
	for set := range r.found.tried {
		if set.Name != "" {
			out = append(out, explainedPlace{set.Name, set, nil})
		}
	}
	slices.SortFunc(out, func(l, o explainedPlace) int {
		return cmp.Or(cmp.Compare(l.name, o.name), len(o.set.Nodes)-len(l.set.Nodes))
	})
	out = slices.CompactFunc(out, func(l, o explainedPlace) bool { return l.name == o.name }) // the other is without nodes to be avoided
	if len(out) == 0 {
		out = append(out, explainedPlace{set: r.run.index.All})
	}
	return out
}

// explainPlace explains what happened in a trial there. A place that arithmetic left out is tried for that where arithmetic
// does not tell how many fit.
func explainPlace(r *Attempt, at explainedPlace, d *demand) framework.NodeGroupExplanation {
	e := framework.NodeGroupExplanation{Group: at.name, Nodes: len(at.set.Nodes)}
	trial, attempted := r.found.shortfalls[at.set]
	numbers := trial.placed < d.needed && !trial.beyondNumbers && toldByNumbers(r, at.set, attempted)
	if at.group != nil && !d.countable() && !numbers && !trial.beyondNumbers {
		probeGroup(r, at.group)
	}
	var counted *feasible.Refusals
	if numbers {
		found := estimateIn(r, at.set)
		e.Fits, counted = min(found.placed, d.needed), found.refusals
	} else if found, ok := r.found.shortfalls[at.set]; ok {
		e.Fits, e.Stopped, e.Queue, counted = min(found.placed, d.needed), found.reason, found.queue, found.refusals
	} else {
		e.AtMost = !d.countable()
		e.Fits, counted = countByClass(r, at.set, d)
	}
	if counted != nil {
		e.Reasons, e.Filled, e.FilledOf = counted.Reasons, counted.Filled, counted.FilledOf()
	}
	return e
}

// toldByNumbers is true if numbers tell what happens in the set. Where a trial was made there they must decide on all; where they alone
// refuse it, and the job is too large to be tried everywhere for what else there may be to be told, they need not.
func toldByNumbers(r *Attempt, set *nodeset.Set, attempted bool) bool {
	if r.packing == nil || sharded() || r.packing.fillCaches() != nil {
		return false
	}
	chosenBy := ""
	if r.groups != nil {
		chosenBy = r.groups.Plugin
	}
	if r.packing.decidedByNumbers(chosenBy) {
		return !attempted || r.queueTakes(slices.Concat(r.packing.tasks...))
	}
	probed := r.groups != nil && !r.dividesItself() && r.packing.problem.Tasks()*len(r.groups.Candidates) <= maxProbedOfJob
	return !attempted && !probed && r.refuted(set, trialOptions{idleOnly: true})
}

// countByClass counts what of the demand the set takes, each class by itself, and by what the nodes refuse the first class of
// which they do not take all.
func countByClass(r *Attempt, set *nodeset.Set, d *demand) (fits int, refusals *feasible.Refusals) {
	short := d.classes[0]
	for _, class := range d.classes {
		fits += min(class.Room(set).Total, d.counts[class]+d.further[class])
	}
	if i := slices.IndexFunc(d.classes, func(c *feasible.ClassCache) bool { return c.Room(set).Total < d.counts[c] }); i >= 0 {
		short = d.classes[i]
	}
	return min(fits, d.needed), short.Refusals(set, r.members.known)
}

// tooLarge is what a member that the minimum needs asks for beyond what any node has.
func tooLarge(s *Run, d *demand) string {
	largest := s.index.LargestNode()
	for _, class := range d.classes {
		missing := s.exceedsNodes(class.Task())
		if d.counts[class] == 0 || len(missing) == 0 {
			continue
		}
		var parts []string
		for _, name := range missing[:min(len(missing), maxReasons)] {
			parts = append(parts, fmt.Sprintf("%s %s of at most %s", name,
				framework.AmountOf(class.Task().InitResreq, name), framework.AmountOf(largest, name)))
		}
		return "; a member asks for more than any node has: " + strings.Join(parts, ", ")
	}
	return ""
}

// explainGathered tells what the domains take, and what stops members on nodes if these are too few in all.
func explainGathered(r *Attempt, e *framework.GangExplanation) {
	queue := func(g framework.NodeGroupExplanation) bool { return g.Queue != "" }
	enough := func(g framework.NodeGroupExplanation) bool { return g.Fits >= e.Needed }
	switch {
	case r.found.gatherText == "" || slices.ContainsFunc(e.Groups, queue):
	case slices.ContainsFunc(e.Groups, enough):
		e.Message = r.found.gatherText
	default:
		e.Message = r.found.gatherText + "; " + e.Message
	}
}
