// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// The interfaces of this file are the contract between plugins and the scheduler, beside what a plugin registers with methods of upstream's
// session. A plugin implements those that it needs. The framework finds them by type assertion when the plugin has opened: on the plugin, or on
// its value for the session (SessionScoped). Plugins are found, and asked, in the order of the conf.
//
// All are called from the scheduling goroutine, but for the steps of a PreBinder and Recover. A panic is the error of the method, with the name of the plugin. Where the method returns no error the
// panic is logged and the plugin has no say, unless the method says otherwise.

// Plugin takes part in scheduling sessions. One instance lives as long as the configuration that names it; a
// session is opened and closed around it once per cycle, always from the same goroutine.
type Plugin interface {
	// Name is the plugin's name in volcano-scheduler.conf.
	Name() string
	// OnSessionOpen registers the plugin's functions for this session.
	OnSessionOpen(ssn *Session)
	// OnSessionClose ends the plugin's part in the session. Pre-bind steps may still be running: they outlive
	// the session they were registered in and must not hold on to it.
	OnSessionClose(ssn *Session)
}

// SessionScoped is a plugin whose answers belong to one session, so that a value of that session implements interfaces in its place.
type SessionScoped interface {
	// InSession returns the value of the session for which OnSessionOpen was called last. It is called once, right after OnSessionOpen.
	InSession() any
}

// Starter is a plugin that needs the other plugins of its session. OnSessionStart is called when all have opened, before the first action.
type Starter interface {
	OnSessionStart(ssn *Session)
}

// Recoverer is a plugin that can find and undo, or adopt, what a former leader prepared and did not bind.
// Recover is called after the caches are full and before the first session of a leader; the session waits for it.
// An error is retried with backoff: no session opens before every Recoverer has succeeded.
type Recoverer interface {
	Recover(ctx context.Context) error
}

// Closer is a plugin that keeps something beyond its sessions which has to end when its configuration is replaced, such as a goroutine
// or a handler of an informer.
//
// Close is called once: after a reload has put another configuration in force, on the goroutine of sessions and with none open; or, if
// the configuration that the plugin was built for is refused, at once. No session opens with the plugin any more. Members in flight
// are not waited for: their steps and rollbacks, and what is told of them, may be called on the plugin after Close, so what those need
// must outlive it. Close does not block. A scheduler that ends closes nothing.
type Closer interface {
	Close()
}

// PreBinder is a plugin's pre-bind step with a deadline and an undo. It is found on the plugin itself, which outlives the session. The step has
// DefaultStepTimeout unless the plugin is a TimedPreBinder. A step that has neither deadline nor undo may be a function: Session.AddPreBindFn.
//
// Steps of a task run one after the other in the order of plugins in the conf, after its gang was allocated and
// before any member is bound; tasks run in parallel, so a step must be safe for concurrent use. The task is the
// step's own: annotations it sets on task.Pod travel in the Binding and are on the pod in the same write that
// sets its node. A step must be idempotent and light; it may wait, since it runs off the session loop.
type PreBinder interface {
	// PreBind prepares the task for the node. An error, a panic or a missed deadline fails the task.
	PreBind(ctx context.Context, task *api.TaskInfo, nodeName string) error
	// Rollback undoes PreBind for a task that will not be bound, including a PreBind that failed half-way. It is
	// called after PreBind has returned, and again with backoff until it returns nil or a NotFound API error. It is not
	// called when PreBind has not begun, unless the plugin is a Reserver.
	Rollback(ctx context.Context, task *api.TaskInfo, nodeName string) error
}

// TimedPreBinder is a PreBinder with a deadline of its own.
type TimedPreBinder interface {
	PreBinder
	// PreBindTimeout bounds one run of PreBind and one of Rollback.
	PreBindTimeout() time.Duration
}

// LastLooker is a PreBinder that looks once more at a task that passed its step, when its whole gang has passed and is about to be bound. It is
// for what may change while other members are prepared, which may take minutes.
type LastLooker interface {
	PreBinder
	// LastLook fails the task with an error, as PreBind does. It must be quick and call nothing remote, is asked of one member after the other,
	// and maybe several times.
	LastLook(task *api.TaskInfo, nodeName string) error
}

// BoundObserver is a PreBinder that is notified of each task that is bound.
type BoundObserver interface {
	PreBinder
	// Bound is called once, off the session loop, after the write that binds the task has succeeded. A task that was handed over to be
	// bound ends with that or with a Rollback that succeeds, so what a plugin keeps for it can be forgotten then. Other members of its gang
	// wait for the method; its context has a deadline.
	Bound(ctx context.Context, task *api.TaskInfo, nodeName string)
}

// Reserver reserves for tasks what they will need on their nodes, for one plugin in one session. It is called from the scheduling
// goroutine only, in trials too. Plugins reserve in the order of the conf up to the first that fails, and are undone in the reverse order.
// The plugin must be a PreBinder, whose Rollback undoes what was reserved once the task is handed over. A plugin whose pre-bind steps the conf
// leaves out reserves nothing, as nothing could undo it.
//
// Each task goes one of these ways, and may begin anew in a later trial or session after any but bound:
//
//	Reserve ──► error                     nothing is reserved
//	   │
//	   ├──────► Unreserve                 the session took the placement back, or ended without having it bound
//	   │
//	   └──────► handed over to be bound   from here on it is the PreBinder's
//	               ├──► Rollback          whether PreBind has begun or not
//	               └──► bound             which a BoundObserver is notified of
type Reserver interface {
	// Reserve is called when the session has placed the task on the node, or lets it wait for room that is being made there. An
	// error leaves nothing reserved, and takes the placement back.
	Reserve(task *api.TaskInfo, node *api.NodeInfo) error
	// Unreserve undoes Reserve. It is called after a Reserve that panicked, too, and once for each that returned nil. The task may
	// be another copy of the one that was reserved for, so tell tasks by their UID.
	Unreserve(task *api.TaskInfo)
}

// Signer is a plugin whose predicate and node scores allocate may remember: it says what two tasks share when its verdicts on them are equal.
// A Signer adds its predicate and scores with the methods of framework.Session. Any other plugin is taken to have a predicate and scores that
// cannot be remembered, wherever it adds them, and is asked about each task on each node, which makes allocate slow. A plugin that has
// neither embeds NoVerdicts.
//
// A verdict is asked for again on a node that has changed. A Signer may refine what it says by the next interfaces.
type Signer interface {
	// SignTask returns for which tasks, besides the one that is asked about, the plugin's verdicts and scores hold. A panic counts as Uncached.
	SignTask(task *api.TaskInfo) VerdictScope
	// PodKeys returns the labels and annotations of pods that the predicate and the scores read. Pods that are equal but for others share what
	// allocate remembers.
	PodKeys() PodKeys
}

// JobSigner is a Signer with verdicts that are PerJob: jobs with equal keys share them. Without it a verdict is kept for one job.
type JobSigner interface {
	// SignJob returns a key of all of the job that the verdicts depend on, as things stand. An empty key is of jobs to which the plugin refuses
	// no node. It is asked each time a verdict is, so it must be quick. A verdict that changes with what is placed on other nodes, such as the
	// job's members, may be kept when the key changes with it. A panic ends the cycle.
	SignJob(job *api.JobInfo) string
}

// NodeSigner is a Signer that lets allocate reuse, in the next session, why gangs fit nowhere. Without it gangs on which the plugin has verdicts
// are tried in each session.
type NodeSigner interface {
	// SignNode returns a key of all that the verdicts on the node follow from now, beside what allocate compares by itself: the conf, the class
	// of the task, and the node's object, resources and pods by UID. Where all these are equal in two sessions, the verdicts and their
	// reasons are equal.
	SignNode(node *api.NodeInfo) uint64
}

// VolumeSigner says which volumes are equal, so that pods whose volumes have equal keys, and that are equal otherwise, are of one class. Without
// it the name of a claim makes each pod with a claim of its own a class of its own. The plugin's verdict on a pod must hold for all that have its
// key, unless it is Uncached. One plugin does so; the first counts.
type VolumeSigner interface {
	// SignVolume returns a key of a volume with a claim: equal keys mean that no verdict depends on which of the volumes a pod has.
	SignVolume(pod *v1.Pod, volume *v1.Volume) string
}

// ClaimSigner does for the resource claims of pods what VolumeSigner does for their volumes.
type ClaimSigner interface {
	SignClaim(pod *v1.Pod, claim *v1.PodResourceClaim) string
}

// ShortageExplainer is a plugin that says better than sums what a node is short of: allocate asks it about nodes that lack nothing but these
// resources.
type ShortageExplainer interface {
	ExplainedShortages() []v1.ResourceName
}

// PlacementGenerator names the node groups that may hold a gang. The first plugin that names some for a job decides.
type PlacementGenerator interface {
	// NodeGroups returns the groups for the job's tasks that are still to be placed; nil when the plugin has no wish. It is asked each
	// time allocate takes the job up, and sees the members placed by then in the session. An error keeps the job from being placed in
	// this session and is what the job's PodGroup says.
	NodeGroups(job *api.JobInfo) (*NodeGroups, error)
}

// PlacementScorer scores trial placements of gangs in node groups; the highest sum over all plugins wins, ties are broken by the group's path.
type PlacementScorer interface {
	// ScoreNodeGroup returns the score of the trial. An error drops the candidate.
	ScoreNodeGroup(job *api.JobInfo, trial *NodeGroupTrial) (float64, error)
	// BeforeTrial reports whether scores do not depend on the placement, which is nil then. When that is so of all plugins, allocate
	// tries the candidates in the order of their scores and takes the first that holds the gang.
	BeforeTrial() bool
}

// Gatherer divides a gang over the domains of a network. The first plugin that returns a Gathering for a job decides. Node groups narrow it
// down: a gang that has both is gathered in one of its groups.
type Gatherer interface {
	// Gathering returns how the job's tasks that are still to be placed are gathered; nil when that is not asked for. It is asked each time
	// allocate takes the job up, and sees the members placed by then in the session. An error keeps the job from being placed in
	// this session and is what its PodGroup says.
	Gathering(job *api.JobInfo) (*Gathering, error)
}

// UnitFormer forms units: gangs that are placed and bound together. The first plugin that returns a unit for a job decides.
type UnitFormer interface {
	// Unit returns the gangs with which the job's is placed and bound, and the terms; nil when it is bound by its minimum alone. All gangs
	// of a unit must be given the same one. A panic ends the cycle: a gang must not be placed without the others of its unit.
	Unit(job *api.JobInfo) *binding.Unit
}

// Avoider names nodes that a job should avoid.
type Avoider interface {
	// Avoid returns nodes that the job's tasks are placed on only if they cannot be placed without them. It is a wish and
	// no verdict: allocate first tries without these nodes, and then with them.
	Avoid(job *api.JobInfo) []string
}

// Reacher bounds the nodes that a task can go to, such as those with its local volume. One plugin can do so; the first counts.
type Reacher interface {
	// Reach returns the only nodes that the plugin's predicate can accept for the task; nil when they may be any. The task's pre-predicate has
	// run. Allocate asks the predicates of all plugins about no other node.
	Reach(task *api.TaskInfo) *Reach
}

// Prioritizer says which jobs allocate places first: before the order of queues, and of jobs in them, applies. It moves that job alone, up to its
// minimum, and within its queue's limits. The order of jobs stays what it is: preempt and reclaim choose their victims by it. Of several plugins
// that want a job first, the first in the conf decides on its place.
type Prioritizer interface {
	// Urgent reports whether the job holds, or has been promised, resources that are of no use before it is placed, and for which of its tasks;
	// nil stands for all that its minimum needs. Its other tasks wait for its turn.
	Urgent(job *api.JobInfo) (only map[api.TaskID]bool, urgent bool)
}

// EvictionObserver is notified of the session's evictions.
type EvictionObserver interface {
	// Evicted is called with each eviction once it is sent. Evictions of statements that are discarded never are, and evictions that are held
	// are sent when the session closes.
	Evicted(eviction Eviction)
}

// Forecaster is a plugin that knows of gangs for which its nodes could never do, whatever is released. It is found on the plugin itself.
type Forecaster interface {
	// NeverFits reports whether the gang, which was let in, can have nothing placed as the cluster's nodes are: what is promised to it
	// would only keep others out. It is asked before upstream's plugins open, the forecaster's own OnSessionOpen maybe among them.
	NeverFits(ssn *Session, job *api.JobInfo) bool
}

// find returns the plugin's implementation of an interface: that of its value for the session, or else its own.
func find[T any](plugin, inSession any) (T, bool) {
	if found, ok := inSession.(T); ok {
		return found, true
	}
	found, ok := plugin.(T)
	return found, ok
}
