// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/crosssession"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// explainedPlace is a set of nodes in which a gang was tried: a node group, a HyperNode, or all nodes.
type explainedPlace struct {
	name  string
	set   *nodeset.Set
	group *topology.Group
}

// RecordUnplaced records why the job was not placed: for each node group or HyperNode where it may be placed, or for
// all nodes, how many of the needed members fit, and the reason that stops the next member. It uses results of trials,
// or arithmetic. Equal gangs share the results of arithmetic, so it checks each node at most once for each of a few
// task classes.
func RecordUnplaced(r *state.Attempt) {
	if reason := r.Found.BestEffortReason; reason != "" {
		r.Run.SetPendingReason(r.Job, framework.PendingReason{Reason: framework.NotEnoughResources, Message: reason})
		return
	}
	d, err := r.DemandOf()
	if err != nil {
		r.Job.JobFitErrors = err.Error()
		return
	}
	if d.Needed == 0 {
		return
	}
	e := framework.GangExplanation{Namespace: r.Job.Namespace, PodGroup: r.Job.Name, Time: r.Run.Now(), Needed: d.Needed}
	for _, place := range explainedPlaces(r) {
		e.Groups = append(e.Groups, explainPlace(r, place, d))
	}
	slices.SortStableFunc(e.Groups, func(l, o framework.NodeGroupExplanation) int { return o.Fits - l.Fits })
	if r.Groups != nil {
		e.Required = r.Groups.Required
		for _, path := range slices.Sorted(maps.Keys(r.Groups.Refused)) {
			e.Groups = append(e.Groups, framework.NodeGroupExplanation{Group: path, Refused: r.Groups.Refused[path]})
		}
	}
	further := 0
	if r.Run.Progress.JobReady(r.Job) {
		for _, tasks := range r.Pending.Tasks {
			further += len(tasks)
		}
	}
	e.Message = shortMessage(e, further) + tooLarge(r.Run, d)
	if r.Planner != nil {
		explainByTopology(r, &e)
	}
	e.Message += paused(r)
	fingerprint := uint64(0)
	if r.Found.Unfinished == 0 && !r.Found.RefusedBeyondNumbers() { // without proof that the gang cannot fit, the next session tries again
		fingerprint = r.Fingerprint()
	}
	found := crosssession.Explanation{Fingerprint: fingerprint, Explanation: e, PendingReason: framework.PendingReason{Reason: pendingReasonOf(e), Message: e.Message}}
	if r.Groups == nil && r.Planner == nil {
		r.Run.SetPendingReason(r.Job, found.PendingReason)
		found.Tasks = taskMessages(r)
	} else {
		explainToAll(r, found)
	}
	r.Run.CrossSession.KeepLastExplanation(r.Job, found)
	if found.Fingerprint != 0 && !slices.ContainsFunc(found.Explanation.Groups, changeable) {
		r.Run.CrossSession.Gangs[found.Fingerprint] = found
	}
}

// paused returns an addition to the gang's message if the gang currently may not hold idle resources while it waits for
// other resources to be released; else an empty text.
func paused(r *state.Attempt) string {
	if r.IdleOnlyUntil.IsZero() {
		return ""
	}
	return fmt.Sprintf("; until %s the gang is placed on idle resources only: gangs of its namespace or group held idle resources for 5 minutes while they waited for pods to terminate",
		r.IdleOnlyUntil.UTC().Format(time.TimeOnly+" UTC"))
}

// taskMessages returns the message of each task of a gang that may be placed on any node, in task order.
func taskMessages(r *state.Attempt) (messages []string) {
	texts := map[*api.FitErrors]string{}
	for _, task := range r.Pending.Tasks[r.Job.DefaultSubJobID()] {
		errs := r.Job.NodesFitErrors[task.UID]
		if errs != nil && texts[errs] == "" {
			texts[errs] = errs.Error()
		}
		messages = append(messages, texts[errs])
	}
	return messages
}

// changeable reports whether the reason that stops the gang in node group g is a text of the queue or of a plugin. Such
// a text may change with time.
func changeable(g framework.NodeGroupExplanation) bool { return g.Stopped != "" }

// explainToAll records why a gang with node groups or topology plans was not placed. Each of its tasks gets the same
// message.
func explainToAll(r *state.Attempt, found crosssession.Explanation) {
	r.Run.SetPendingReason(r.Job, found.PendingReason)
	r.Run.Session.Explain(r.Job.UID, found.Explanation)
	errs := api.NewFitErrors() // every task gets the same errors, because none of the tasks is placed
	errs.SetError(found.Explanation.Message)
	for _, tasks := range r.Pending.Tasks {
		for _, task := range tasks {
			r.Job.NodesFitErrors[task.UID] = errs
		}
	}
}

// pendingReasonOf returns QueueFull or QueueNotOpen if the gang's queue stops the gang everywhere it was tried; otherwise
// NotEnoughResources.
func pendingReasonOf(e framework.GangExplanation) string {
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

// explainedPlaces lists the places where the job may be placed: node groups, the HyperNodes it was tried in, or all
// nodes.
func explainedPlaces(r *state.Attempt) []explainedPlace {
	var out []explainedPlace
	if r.Groups != nil {
		for _, group := range r.Groups.Candidates {
			out = append(out, explainedPlace{group.Path(), r.Run.Index.Group(group), group})
		}
		return out
	}
	for set := range r.Found.Tried {
		if set.Name != "" {
			out = append(out, explainedPlace{set.Name, set, nil})
		}
	}
	slices.SortFunc(out, func(l, o explainedPlace) int {
		return cmp.Or(cmp.Compare(l.name, o.name), len(o.set.Nodes)-len(l.set.Nodes))
	})
	// A HyperNode may have two sets: one with all of its nodes, and a smaller one without the nodes that the job should
	// avoid. Only the larger set is explained.
	out = slices.CompactFunc(out, func(l, o explainedPlace) bool { return l.name == o.name })
	if len(out) == 0 {
		out = append(out, explainedPlace{set: r.Run.Index.All})
	}
	return out
}

// explainPlace explains why the gang was not placed in at, which is a node group, a HyperNode or all nodes. d is the
// gang's demand. If arithmetic excluded a node group without a trial, and cannot compute how many members fit there,
// explainPlace makes a trial now.
func explainPlace(r *state.Attempt, at explainedPlace, d *state.Demand) framework.NodeGroupExplanation {
	e := framework.NodeGroupExplanation{Group: at.name, Nodes: len(at.set.Nodes)}
	last, attempted := r.Found.Shortfalls[at.set]
	var numbers *state.PackingInput
	if last.Placed < d.Needed && !last.BeyondNumbers {
		numbers = explainedByNumbers(r, at.set, attempted)
	}
	if at.group != nil && !d.Countable() && numbers == nil && !last.BeyondNumbers {
		probeGroup(r, at.group)
	}
	var counted *feasible.Refusals
	if numbers != nil {
		found := estimateIn(r, numbers, at.set)
		e.Fits, e.Stopped, e.Queue, counted = min(found.Placed, d.Needed), found.Reason, found.Queue, found.Refusals
	} else if found, ok := r.Found.Shortfalls[at.set]; ok {
		e.Fits, e.Stopped, e.Queue, counted = min(found.Placed, d.Needed), found.Reason, found.Queue, found.Refusals
	} else {
		e.AtMost = !d.Countable()
		e.Fits, counted = countByClass(r, at.set, d)
	}
	if counted != nil {
		e.Reasons, e.Filled, e.FilledOf = counted.Reasons, counted.Filled, counted.FilledOf()
	}
	return e
}

// explainedByNumbers returns the demand of the gang if arithmetic on resources can explain why the gang was not placed in
// the set. It returns nil if tasks must be probed on nodes to find the reasons. Arithmetic suffices in these cases:
//   - The gang has no packing problem, and arithmetic has excluded the set (excludedByNumbers).
//   - Only resources and cached filter results decide which nodes take the tasks. After a trial in the set (attempted),
//     the queue must also have room for all tasks.
//   - No trial was made in the set, arithmetic proves that the set has no room, and the gang is not probed for
//     explanations: it has no node groups, it divides itself, or its tasks times its groups exceed maxProbedOfJob.
func explainedByNumbers(r *state.Attempt, set *nodeset.Set, attempted bool) *state.PackingInput {
	switch {
	case state.Sharded():
		return nil
	case r.Packing == nil:
		return excludedByNumbers(r, set, attempted)
	case r.Packing.FillCaches() != nil:
		return nil
	}
	chosenBy := ""
	if r.Groups != nil {
		chosenBy = r.Groups.Plugin
	}
	if r.Packing.DecidedByNumbers(chosenBy) {
		if attempted && !r.QueueTakes(slices.Concat(r.Packing.Tasks...)) {
			return nil
		}
		return r.Packing
	}
	probed := r.Groups != nil && !r.DividesItself() && r.Packing.Problem.Tasks()*len(r.Groups.Candidates) <= maxProbedOfJob
	if attempted || probed || !r.Refuted(set, state.Options{IdleOnly: true}) {
		return nil
	}
	return r.Packing
}

// excludedByNumbers returns the demand of a gang without packing plans if arithmetic excluded the set without a trial;
// else nil.
func excludedByNumbers(r *state.Attempt, set *nodeset.Set, attempted bool) *state.PackingInput {
	switch {
	case attempted:
		return nil
	case r.Found.Refuted[set] != nil:
		return r.Found.Refuted[set]
	case r.Refuted(set, state.Options{IdleOnly: true}):
		return r.Refutable
	default:
		return nil
	}
}

// countByClass counts how many tasks of the demand the set takes, each class on its own. It also returns the reasons why
// nodes refuse the first class whose tasks do not all fit.
func countByClass(r *state.Attempt, set *nodeset.Set, d *state.Demand) (fits int, refusals *feasible.Refusals) {
	short := d.Classes[0]
	for _, class := range d.Classes {
		fits += min(class.Room(set).Total, d.Counts[class]+d.Further[class])
	}
	if i := slices.IndexFunc(d.Classes, func(c *feasible.ClassResults) bool { return c.Room(set).Total < d.Counts[c] }); i >= 0 {
		short = d.Classes[i]
	}
	return min(fits, d.Needed), short.Refusals(set, r.Members.Known)
}

// tooLarge returns a text that names resources if a needed member requests more of them than any node has; else an empty
// text.
func tooLarge(s *state.Run, d *state.Demand) string {
	largest := s.Index.LargestNode()
	for _, class := range d.Classes {
		missing := s.ExceedsNodes(class.Task())
		if d.Counts[class] == 0 || len(missing) == 0 {
			continue
		}
		var parts []string
		for _, name := range missing[:min(len(missing), maxReasons)] {
			parts = append(parts, fmt.Sprintf("%s %s of at most %s", name,
				framework.AmountOf(class.Task().InitResreq, name), framework.AmountOf(largest, name)))
		}
		return "; a member requests more than any node has: " + strings.Join(parts, ", ")
	}
	return ""
}

// explainByTopology adds to the explanation why no domains were found for the gang. The reasons of nodes are left out if
// the nodes have room for enough members in total, because then only the domains are too small.
func explainByTopology(r *state.Attempt, e *framework.GangExplanation) {
	queue := func(g framework.NodeGroupExplanation) bool { return g.Queue != "" }
	enough := func(g framework.NodeGroupExplanation) bool { return g.Fits >= e.Needed }
	switch {
	case r.Found.NoPlanText == "" || slices.ContainsFunc(e.Groups, queue):
	case slices.ContainsFunc(e.Groups, enough):
		e.Message = r.Found.NoPlanText
	default:
		e.Message = r.Found.NoPlanText + "; " + e.Message
	}
}

// Reuse records for the gang the explanation of an equal gang, from this session or the last one, if nothing on which
// the explanation depends has changed. It returns false if no such explanation exists, so that the gang must be tried.
func Reuse(r *state.Attempt) bool {
	if !r.Run.CrossSession.HasExplanations() || r.Fingerprint() == 0 {
		return false
	}
	found, ok := r.Run.CrossSession.CachedExplanation(r.Fingerprint())
	if !ok {
		return false
	}
	r.Run.CrossSession.Gangs[found.Fingerprint] = found
	found.Explanation.Time = r.Run.Now()
	repeat(r, found)
	return true
}

// Repeat records for the gang why it was not placed when it was last tried. The gang is not tried in this session,
// because failed attempts for gangs of its namespace have used up its time (crosssession.Turns).
func Repeat(r *state.Attempt) {
	found, ok := r.Run.CrossSession.LastExplanation(r.Job)
	if !ok {
		r.Run.SetPendingReason(r.Job, NotTried(r.Job.Namespace))
		return
	}
	repeat(r, found)
}

// NotTried is the reason of a gang that is not tried in this session and has no known reason from an earlier session.
// Failed attempts for gangs of its namespace have used up their time.
func NotTried(namespace string) framework.PendingReason {
	return framework.PendingReason{Reason: framework.NotTried,
		Message: fmt.Sprintf("not tried in this cycle: gangs of namespace %s that fit nowhere have used up the namespace's time for failed attempts; it has its turn in a later cycle", namespace)}
}

// repeat records for the gang an explanation of an earlier attempt.
func repeat(r *state.Attempt, found crosssession.Explanation) {
	found.Explanation.Namespace, found.Explanation.PodGroup = r.Job.Namespace, r.Job.Name
	r.Run.CrossSession.KeepLastExplanation(r.Job, found)
	if r.Groups != nil || r.Planner != nil {
		explainToAll(r, found)
		return
	}
	r.Run.SetPendingReason(r.Job, found.PendingReason)
	tasks := r.Pending.Tasks[r.Job.DefaultSubJobID()]
	errs := map[string]*api.FitErrors{}
	for i, text := range found.Tasks[:min(len(found.Tasks), len(tasks))] {
		if text == "" {
			continue
		}
		if errs[text] == nil {
			errs[text] = api.NewFitErrors()
			errs[text].SetError(text)
		}
		r.Job.NodesFitErrors[tasks[i].UID] = errs[text]
	}
}
