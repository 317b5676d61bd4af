// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"time"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/capacity"
	"volcano.sh/volcano/pkg/scheduler/plugins/gang"
	"volcano.sh/volcano/pkg/scheduler/plugins/predicates"
	"volcano.sh/volcano/pkg/scheduler/plugins/proportion"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Action is the allocate action. It takes over upstream's name and arguments.
type Action struct {
	observe  func(result string)
	defaults *options.ServerOption
	memory   *memory
}

var _ framework.Action = (*Action)(nil)

// Option refines the action.
type Option func(*Action)

// WithTrialObserver calls observe after every trial placement of a gang in a node group, with its result: ready, waiting
// for resources being released, or misfit.
func WithTrialObserver(observe func(result string)) Option {
	return func(a *Action) { a.observe = observe }
}

// New returns the action.
func New(opts ...Option) *Action {
	a := &Action{observe: func(string) {}, defaults: defaultOptions(), memory: newMemory()}
	for _, opt := range opts {
		opt(a)
	}
	return a
}

// Name is the action's name in volcano-scheduler.conf.
func (*Action) Name() string { return "allocate" }

// Execute places the gangs of the session that fit: those that are urgent, and then queue by queue and job by job as the
// plugins order them.
func (act *Action) Execute(ssn *framework.Session) {
	act.memory.begin()
	a := newAllocation(ssn, act)
	w := a.work()
	for _, job := range w.urgent {
		if a.ssn.Overused(a.ssn.Queues[job.Queue]) {
			w.jobs[job.Queue].Push(job) // it is told so with the others
			continue
		}
		a.ssn.Turn(job.UID)
		a.take(w, job)
	}
	w.pushQueues(ssn)
	klog.V(3).InfoS("Allocating", "queues", w.queues.Len())
	for !w.queues.Empty() {
		a.serve(w, w.queues.Pop().(*api.QueueInfo))
	}
}

// allocation is one run of the action on a session.
type allocation struct {
	ssn        *framework.Session
	board      *board
	layering   *layering
	exclusions *exclusions
	observe    func(result string)
	now        func() time.Time
	memory     *memory

	// prePredicates are the tiers whose pre-predicates are asked.
	prePredicates []conf.Tier
	selection     selection

	telling    *telling
	kinds      map[string]*kind
	kindOfTask map[api.TaskID]*kind
	keyBuffer  []byte
	// shapes are the kinds whose shape is kept, at the most maxShapes.
	shapes    []*kind
	maxShapes int
	// ofJob are the fields that hold for the current job only.
	ofJob []*field
	// cuts are domains cut down to others.
	cuts map[[2]*domain]*domain

	// sampled says that the user wishes some nodes left out; gang that the gang plugin decides on readiness; podSlots that
	// the predicates plugin counts pods.
	sampled, gang, podSlots bool
	// alone says that no other job is left, so that nobody is kept waiting by placing all of a job's tasks at once.
	alone bool
	// within are the nodes the job is tried on: all but those it is to avoid. nil is all.
	within *domain
	// inside is the plugin that named the group in which the job is being tried; empty elsewhere.
	inside string
	// standings are what is known of the jobs that are looked at again, members the job's that is being placed.
	standings map[api.JobID]*standing
	members   *members
	// misfits are the gangs that fit nowhere, by when: settled counts the jobs of which something was placed for good.
	misfits map[misfitKey]int
	settled int
	// demand is what the job demands that is being placed in groups; nil when numbers tell nothing of it. withDevices are nodes
	// with devices, by make; nil before they are asked for.
	demand *demand
	// print is of all that decides on that job, 0 when it cannot be named; printer makes prints, nil before one is asked for.
	print       uint64
	printer     *printer
	withDevices map[string]*api.NodeInfo
	// notGang are the session's tiers without the gang plugin.
	notGang []conf.Tier
	// tried are the domains in which the job was tried, and stops how far attempts came there; probed counts the tasks placed
	// for explanations alone.
	tried  map[*domain]bool
	stops  map[*domain]stop
	probed int
	// lacksBestEffort is why the job that is being placed cannot be completed by backfill; empty elsewhere.
	lacksBestEffort string
	remote          remoteVerdicts
	// taints and affinity say that nodes are refused for a pod's tolerations, and for its node selector and affinity.
	taints, affinity bool
	// compare is the rank order of the job that is being placed; nil when it has none.
	compare func(l, r *api.TaskInfo) int
}

func newAllocation(ssn *framework.Session, act *Action) *allocation {
	errorCache := true
	vcframework.GetArgOfActionFromConf(ssn.Configurations, "allocate").GetBool(&errorCache, conf.EnablePredicateErrCacheKey)
	a := &allocation{
		ssn:        ssn,
		board:      newBoard(ssn),
		layering:   newLayering(ssn, !errorCache),
		exclusions: newExclusions(ssn),
		observe:    act.observe,
		now:        time.Now,
		memory:     act.memory,
		kinds:      map[string]*kind{},
		kindOfTask: map[api.TaskID]*kind{},
		cuts:       map[[2]*domain]*domain{},
		standings:  map[api.JobID]*standing{},
		misfits:    map[misfitKey]int{},
		notGang:    tiersWithout(ssn.Tiers, gang.PluginName),
		sampled:    samplingWanted(act.defaults),
	}
	// Upstream's plugins that copy every queue in their pre-predicate do so for the simulations of preempt and reclaim, which
	// ask it again.
	a.prePredicates = tiersWithout(ssn.Tiers, proportion.PluginName, capacity.PluginName)
	a.maxShapes = max(minShapes, maxSamples/max(1, len(a.board.nodes)))
	a.telling = tellingOf(ssn, a.layering.plugins)
	a.gang = a.gangEnabled()
	a.podSlots = a.predicatesEnabled()
	a.taints, a.affinity = a.predicateSwitch(predicates.TaintTolerationEnable), a.predicateSwitch(predicates.NodeAffinityEnable)
	return a
}

// serve takes the next job of the queue, places what it can of it, and puts the queue back while it has jobs.
func (a *allocation) serve(w *work, queue *api.QueueInfo) {
	if a.ssn.Overused(queue) {
		klog.V(3).InfoS("Queue is overused, its jobs wait", "queue", queue.Name)
		a.overused(w, queue)
		return
	}
	jobs := w.jobs[queue.UID]
	if jobs.Empty() {
		return
	}
	job := jobs.Pop().(*api.JobInfo)
	a.ssn.Turn(job.UID)
	a.alone = jobs.Empty() && w.queues.Empty()
	a.take(w, job)
	w.queues.Push(queue)
}

// take places what it can of the job, and puts the job back into its queue while there is more of it to be placed.
func (a *allocation) take(w *work, job *api.JobInfo) {
	sheet := w.sheets[job.UID]
	if a.placeJob(job, sheet) && !sheet.empty() {
		w.jobs[job.Queue].Push(job)
		return
	}
	sheet.tell(job)
	delete(a.standings, job.UID)
}

// overused tells the jobs of a queue that has no turn in this session any more.
func (a *allocation) overused(w *work, queue *api.QueueInfo) {
	for jobs := w.jobs[queue.UID]; !jobs.Empty(); {
		job := jobs.Pop().(*api.JobInfo)
		sheet := w.sheets[job.UID]
		sheet.tell(job)
		wait := a.ssn.QueueWait(queue, sheet.first().InitResreq, func() bool { return a.ssn.Overused(queue) })
		if a.jobReady(job) {
			wait.Message = "the minimum is placed, further members wait: " + wait.Message
		}
		a.tell(job, wait)
	}
}

// placeJob places what makes the job ready, or more of a job that is. It says whether something was handed over to be
// bound: a job that is not ready, or waits for resources being released, is not looked at again in this session.
func (a *allocation) placeJob(job *api.JobInfo, sheet *sheet) bool {
	groups, err := a.ssn.NodeGroups(job)
	if err != nil {
		klog.V(3).InfoS("A job is not placed", "podGroup", klog.KRef(job.Namespace, job.Name), "err", err)
		a.tell(job, framework.Wait{Reason: framework.NotEnoughResources, Message: err.Error()})
		return false
	}
	defer a.forgetFields()
	a.compare = nil
	if groups != nil {
		a.compare = groups.Compare
		a.alone = false // all at once would be all in one group: what it has no room for may go to another
	}
	a.members = a.standingOf(job).members
	a.demand, a.print = nil, 0
	if groups != nil && a.carry(job, sheet, groups) {
		return false
	}
	a.tried, a.stops = map[*domain]bool{}, map[*domain]stop{}
	p := a.place(job, sheet, groups)
	switch {
	case p.outcome == ready && a.jobReady(job):
		a.settled++
		p.commit(job)
		a.advance(job, &p)
		sheet.note(job)
		sheet.keep(p.rest)
		p.decide(a.ssn, job)
		return true
	case p.outcome != misfit:
		a.settled++
		p.keep()
	default:
		a.explain(job, sheet, groups)
	}
	return false
}

// place places the job: now before it waits for resources being released, whole in one group before it is spread over several,
// and without the nodes it is to avoid before with them.
func (a *allocation) place(job *api.JobInfo, sheet *sheet, groups *framework.NodeGroups) plan {
	if groups != nil {
		return a.placeInGroups(job, sheet, groups)
	}
	return a.tryWays(job, func(now bool) plan {
		return a.placeOn(job, sheet, site{domain: a.cut(a.board.everything, a.within)}, now)
	})
}

// tryWays tries ways to place the job, each before the next one.
func (a *allocation) tryWays(job *api.JobInfo, ways ...func(now bool) plan) plan {
	within := []*domain{nil}
	if avoided := a.ssn.Avoided(job); len(avoided) > 0 {
		within = []*domain{a.board.without(avoided), nil}
	}
	defer func() { a.within = nil }()
	for _, now := range []bool{true, false} {
		if !now && !a.board.releases(a.board.everything) {
			break
		}
		for _, way := range ways {
			for _, a.within = range within {
				if p := way(now); p.outcome != misfit {
					return p
				}
			}
		}
	}
	return plan{}
}

// forgetFields drops the fields that hold for one job only.
func (a *allocation) forgetFields() {
	for _, f := range a.ofJob {
		delete(f.shape.fields, f.key)
		delete(f.shape.voices, f.key.job)
	}
	a.ofJob = nil
}
