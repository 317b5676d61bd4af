// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// preemption is one run of the action on a session.
type preemption struct {
	ssn        *framework.Session
	run        *state.Run
	candidates *candidates
	// delay is how long a pending pod of a gang waits at least before pods are evicted for the gang.
	delay   time.Duration
	observe Observer
	// began is when the current try began.
	began  time.Time
	memory *memory
	// budgets are the cluster's PodDisruptionBudgets; nil before the first use, because reading them takes long if there are many.
	budgets *budgets
	// sent are the pods that were evicted in this session, by any action, also in trials that are still to be committed or undone.
	sent []*api.TaskInfo
	// together are the gang that is tried now and the other gangs of its gang group, which are no victims.
	together map[api.JobID]bool
	// explained is the last explanation, because gangs that ask for the same have the same.
	explained explained
}

// explained is a message why a gang is pending, before and after the reason was added why no pods are evicted for it.
type explained struct{ before, why, message string }

// starving returns those of the jobs that lack members.
func starving(ssn *framework.Session, jobs []*api.JobInfo) (gangs []*api.JobInfo) {
	for _, job := range jobs {
		if !job.IsPending() && ssn.Queues[job.Queue] != nil && len(job.TaskStatusIndex[api.Pending]) > 0 && ssn.JobStarving(job) {
			gangs = append(gangs, job)
		}
	}
	return gangs
}

// inOrder returns the gangs that the plugins call valid, in their order: queue by queue, and job by job.
func inOrder(ssn *framework.Session, gangs []*api.JobInfo) (sorted []*api.JobInfo) {
	slices.SortFunc(gangs, state.UsualJobOrder)
	ofQueue := map[api.QueueID][]*api.JobInfo{}
	for _, job := range gangs {
		if invalid := ssn.JobValid(job); invalid != nil && !invalid.Pass {
			klog.V(4).InfoS("No pods are evicted for a gang", "podGroup", klog.KRef(job.Namespace, job.Name), "reason", invalid.Reason, "message", invalid.Message)
			continue
		}
		ofQueue[job.Queue] = append(ofQueue[job.Queue], job)
	}
	queues := slices.Sorted(maps.Keys(ofQueue))
	byQueue, byJob := state.ByOrder[*api.QueueInfo](ssn.QueueOrderFn), state.ByOrder[*api.JobInfo](ssn.JobOrderFn)
	slices.SortStableFunc(queues, func(l, r api.QueueID) int { return byQueue(ssn.Queues[l], ssn.Queues[r]) })
	for _, queue := range queues {
		jobs := ofQueue[queue]
		if !slices.IsSortedFunc(jobs, byJob) {
			slices.SortStableFunc(jobs, byJob)
		}
		sorted = append(sorted, jobs...)
	}
	return sorted
}

// makeRoomForAll evicts pods for the gangs, one gang or gang group after the other.
func (p *preemption) makeRoomForAll(gangs []*api.JobInfo) {
	left := map[api.JobID]bool{}
	for _, job := range gangs {
		left[job.UID] = true
	}
	for _, job := range gangs {
		if !left[job.UID] || !p.ssn.JobStarving(job) { // tried with its gang group
			continue
		}
		p.began = time.Now()
		lacking, why := p.companions(job, left)
		for _, gang := range lacking {
			delete(left, gang.UID)
		}
		if why == "" {
			why = p.makeRoom(lacking)
		}
		if why != "" {
			p.refuse(why, lacking...)
		}
	}
}

// refuse records why no pods are evicted for the gangs, which are placed together.
func (p *preemption) refuse(why string, gangs ...*api.JobInfo) {
	p.observed(Try{Result: Refused, Why: why}, gangs)
	for _, job := range gangs {
		p.explain(job, why)
	}
}

// companions returns the gangs to place together with the job: the gangs of its gang group that lack members, or the job
// alone. starving are the gangs that lack members and were not tried yet. why is the reason if the group cannot be placed
// now.
func (p *preemption) companions(job *api.JobInfo, starving map[api.JobID]bool) (lacking []*api.JobInfo, why string) {
	group, all := framework.Companions(p.ssn.Jobs, p.ssn.Placements.GangGroup(job))
	p.together = map[api.JobID]bool{job.UID: true}
	switch {
	case !all:
		return []*api.JobInfo{job}, "a gang of its gang group does not exist"
	case group == nil:
		return []*api.JobInfo{job}, ""
	}
	for _, gang := range group {
		p.together[gang.UID] = true
		switch {
		case starving[gang.UID]:
			lacking = append(lacking, gang)
		case !p.ssn.JobReady(gang) && !p.ssn.JobPipelined(gang):
			why = fmt.Sprintf("gang %s of its gang group cannot be placed now", gang.UID)
		}
	}
	return lacking, why
}

// makeRoom evicts as few pods as needed for the minima of the gangs, which are placed together, and pipelines their
// members on the released resources. It returns why no pods were evicted; empty if members were pipelined, or if no
// evictions are needed, so that action allocate places the gangs.
func (p *preemption) makeRoom(gangs []*api.JobInfo) (why string) {
	restore, sent := keepFitErrors(gangs), len(p.sent)
	var trials []*trial
	revert := func() {
		undo(trials)
		restore()
		p.sent = p.sent[:sent]
	}
	for _, job := range gangs {
		t, why := p.tryGang(job)
		if why != "" {
			revert()
			if len(gangs) > 1 {
				clear(p.candidates.known) // may lack pods that the trials had evicted
				why = fmt.Sprintf("gang %s of its gang group: %s", job.UID, why)
			}
			return why
		}
		if t != nil {
			trials = append(trials, t)
		}
	}
	if len(p.sent) == sent {
		revert()
		p.observed(Try{Result: NotNeeded}, gangs)
		return ""
	}
	done, err := p.send(trials, p.sent[:sent])
	if err != nil {
		revert()
		return err.Error()
	}
	p.observed(done, gangs)
	return ""
}

// send sends the evictions of all trials together. before are the pods that were evicted before them in this session.
func (p *preemption) send(trials []*trial, before []*api.TaskInfo) (Try, error) {
	var all []framework.Eviction
	left, of, lost := p.allBudgets().beside(before), make([][]framework.Eviction, len(trials)), make([]time.Duration, len(trials))
	done := Try{Result: Evicted}
	for i, t := range trials {
		of[i], lost[i] = t.evictions(left)
		all = append(all, of[i]...)
		done.Places = append(done.Places, t.where.name)
		_, back := t.units()
		done.PutBack += len(tasksOf(back))
		done.Lost += lost[i]
	}
	if err := p.ssn.EvictTogether(all); err != nil {
		return Try{}, err
	}
	for i, t := range trials {
		t.report(of[i], lost[i])
	}
	for _, eviction := range all {
		done.Evicted = append(done.Evicted, eviction.Task)
	}
	return done, nil
}

// observed reports the try for the gangs, which has just ended.
func (p *preemption) observed(t Try, gangs []*api.JobInfo) {
	if p.observe == nil {
		return
	}
	t.Action, t.Took = p.candidates.action, time.Since(p.began)
	for _, job := range gangs {
		t.Gangs = append(t.Gangs, job.UID)
	}
	p.observe(t)
}

// allBudgets returns the cluster's PodDisruptionBudgets.
func (p *preemption) allBudgets() *budgets {
	if p.budgets == nil {
		p.budgets = newBudgets(p.ssn, p.run.Now(), p.sent)
	}
	return p.budgets
}

// boundByBudgets reports whether PodDisruptionBudgets keep pods from being evicted.
func (p *preemption) boundByBudgets() bool { return areStrict(p.ssn) && len(p.allBudgets().all) > 0 }

// undo undoes the trials, the last one first.
func undo(trials []*trial) {
	for _, t := range slices.Backward(trials) {
		t.undo()
	}
}

// keepFitErrors returns a function that restores the gangs' current reasons why they do not fit.
func keepFitErrors(gangs []*api.JobInfo) (restore func()) {
	errors, texts := map[*api.JobInfo]map[api.TaskID]*api.FitErrors{}, map[*api.JobInfo]string{}
	for _, job := range gangs {
		errors[job], texts[job] = maps.Clone(job.NodesFitErrors), job.JobFitErrors
	}
	return func() {
		for _, job := range gangs {
			job.NodesFitErrors, job.JobFitErrors = errors[job], texts[job]
		}
	}
}

// tryGang evicts pods in the session for the gang's minimum, and places the gang's members. It returns a trial that is still
// to be committed or undone; nil if the gang lacks no members with requests. why is the reason if no pods can be evicted
// for the gang.
func (p *preemption) tryGang(job *api.JobInfo) (t *trial, why string) {
	p.ssn.SetCurrentJob(job.UID)
	pending := state.NewPendingTasks(p.run.Progress, job)
	switch {
	case pending.Empty() || len(job.TaskStatusIndex[api.Pipelined]) > 0:
		return nil, "" // the other members request nothing, or wait for resources already
	case p.ssn.Paused(job):
		return nil, "the gang may be placed on idle resources only, for now"
	case neverPreempts(job):
		return nil, "preemptionPolicy of its pods is Never"
	}
	if why := delayed(job, pending, p.delay, p.run.Now()); why != "" {
		return nil, why
	}
	defer p.run.Finder.ForgetJob()
	defer p.run.Progress.Forget(job)
	r, err := p.newAttempt(job, pending)
	if err != nil {
		return nil, err.Error()
	}
	key, alone := p.aloneKeyOf(r)
	if known := p.memory.askedAlone[key]; alone && known != nil {
		p.noteExcluded(r, known)
		return nil, known.why
	}
	t, found := p.tryDemand(r)
	if alone && found.shared {
		p.memory.askedAlone[key] = found
	}
	return t, found.why
}

// tryDemand is the part of tryGang that is done once for gangs that ask for the same, if they get no room.
func (p *preemption) tryDemand(r *state.Attempt) (t *trial, found *refusal) {
	d, err := r.DemandOf()
	if err != nil {
		return nil, &refusal{why: err.Error()}
	}
	members := minimumOf(r.Pending, max(d.Needed, 1), r.NeededByRole())
	minimum := together(members)
	if why := p.candidates.refuse(r.Job, minimum, requestKnown(d)); why != "" {
		return nil, &refusal{why: why}
	}
	key := p.demandKey(r, d)
	if known := p.memory.asked[key]; known != nil {
		p.noteExcluded(r, known)
		return nil, known
	}
	first := r.Pending.First()
	if err := p.run.Finder.PrePredicate(first); err != nil { // a plugin excludes all nodes
		return nil, &refusal{why: err.Error()}
	}
	shared := key != "" && len(p.together) == 1 // other gangs of its group may hold resources only for now
	var fingerprint uint64
	if shared && p.candidates.action == Name && !p.boundByBudgets() { // what reclaim may evict also depends on the shares of queues
		fingerprint = p.fingerprint(r)
	}
	t, found = p.search(fingerprint, func() *planner { return newPlanner(p, r, d, p.candidates.askerOf(r.Pending, minimum), members) })
	if found.shared = shared && found.why != "" && !found.ofPace; found.shared {
		p.memory.asked[key] = found
		p.noteExcluded(r, found)
	}
	return t, found
}

// search tries the planner's plans, unless arithmetic is known to exclude that the gang with the fingerprint gets room.
func (p *preemption) search(fingerprint uint64, planner func() *planner) (*trial, *refusal) {
	if known := p.memory.lookup(fingerprint); known != "" {
		return nil, &refusal{why: known, arithmetic: true}
	}
	s := planner()
	job, pace := s.attempt.Job.UID, &p.memory.pace
	if why := pace.refuse(job); why != "" {
		return nil, &refusal{why: why, ofPace: true}
	}
	plans, why := s.plans()
	if why == "" {
		t, why := s.tryPlans(plans)
		pace.note(job, t != nil, s.gaveUp && t == nil)
		return t, &refusal{why: why}
	}
	if s.dependsOnWork() {
		return nil, &refusal{why: why}
	}
	if fingerprint != 0 {
		p.memory.refused[fingerprint] = why
	}
	return nil, &refusal{why: why, arithmetic: fingerprint != 0}
}

// requestKnown reports whether the gang's minimum requests the same amount, whichever of its pending tasks are placed.
func requestKnown(d *state.Demand) bool { return !d.Unknown && (!d.Choice || len(d.Classes) <= 1) }

// newAttempt returns an attempt to place the pending tasks on idle resources and those being released.
func (p *preemption) newAttempt(job *api.JobInfo, pending *state.Pending) (*state.Attempt, error) {
	r, err := state.NewAttempt(p.run, job, pending, false)
	if err != nil {
		return nil, err
	}
	r.Phases = []bool{false}
	return r, nil
}

// neverPreempts reports whether a pending pod of the gang must not evict others.
func neverPreempts(job *api.JobInfo) bool {
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if policy := task.Pod.Spec.PreemptionPolicy; policy != nil && *policy == v1.PreemptNever {
			return true
		}
	}
	return false
}

// demandKey returns a text of everything that decides whether pods may be evicted for the gang. It is empty if a plugin
// may decide by something else, or if the gang has members on nodes or a topology.
func (p *preemption) demandKey(r *state.Attempt, d *state.Demand) string {
	job := r.Job
	if d.Unknown || len(r.Members.Nodes) > 0 || !p.asksByClass(r) {
		return ""
	}
	var key strings.Builder
	fmt.Fprintf(&key, "%s %d %d %t %v", job.Queue, job.Priority, d.Needed, d.Choice, r.NeededByRole())
	for _, class := range d.Classes {
		fmt.Fprintf(&key, " %d %d %d", p.run.Finder.Class(class.Task()).Number(), d.Counts[class], d.Beyond[class])
	}
	if r.Groups != nil {
		fmt.Fprintf(&key, " %t", r.Groups.Required)
		for _, group := range r.Groups.Candidates {
			fmt.Fprintf(&key, " %s", group.Path())
		}
	}
	return key.String()
}

// asksByClass reports whether the classes of the gang's tasks say all that plugins look at when they decide whether pods may
// be evicted for the gang, beside its queue, priority and node groups.
func (p *preemption) asksByClass(r *state.Attempt) bool {
	return r.Planner == nil && !r.DividesItself() && !p.run.Finder.ReadsAnything() && p.candidates.alike && !p.run.Finder.PerJobBut(r.Pending.First(), chosenBy(r))
}

// chosenBy returns the plugin that named the gang's node groups, if any.
func chosenBy(r *state.Attempt) string {
	if r.Groups == nil {
		return ""
	}
	return r.Groups.Plugin
}

// explain adds to the gang's pending reason why no pods are evicted for it.
func (p *preemption) explain(job *api.JobInfo, why string) {
	reason, known := p.ssn.PendingReason(job.UID)
	if !known {
		reason = framework.PendingReason{Reason: framework.NotEnoughResources, Message: "the gang does not fit"}
	}
	if last := &p.explained; last.before != reason.Message || last.why != why {
		subject := "preemption"
		if p.candidates.action == ReclaimName {
			subject = "reclaim"
		}
		*last = explained{reason.Message, why, fmt.Sprintf("%s; %s cannot help: %s", reason.Message, subject, why)}
	}
	reason.Message = p.explained.message
	p.run.SetPendingReason(job, reason)
}
