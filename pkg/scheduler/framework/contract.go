// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// The interfaces of this file are the contract between plugins and the scheduler, in addition to functions that a
// plugin registers with upstream's session. A plugin implements the interfaces it needs. The framework finds them by
// type assertion after the plugin has opened: on the plugin, or on its value for the session (SessionScoped). Plugins
// are found, and called, in the order of the conf.
//
// All methods are called on the scheduling goroutine, except the steps of a PreBinder and Recover. A panic counts as an
// error of the method, with the name of the plugin. If the method returns no error, the panic is logged and the
// plugin's answer is ignored, unless the method's documentation says otherwise. A panic of OnSessionOpen, InSession,
// OnSessionStart or OnSessionClose ends the cycle.

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

// SessionScoped is a plugin whose answers belong to one session. It supplies a value for each session, which implements
// interfaces instead of the plugin.
type SessionScoped interface {
	// InSession returns the value for the current session. It is called once, right after OnSessionOpen.
	InSession() any
}

// Starter is a plugin that needs the other plugins of its session, or an action that has to act before other actions
// run. OnSessionStart is called after all plugins have opened and before the first action: first for plugins, in conf
// order, then for actions, by name.
type Starter interface {
	OnSessionStart(ssn *Session)
}

// Recoverer is a plugin that can find and undo, or adopt, objects that a former leader prepared and did not bind. Recover is
// called after the caches are full and before the first session of a leader; the session waits for it. An error is retried with
// backoff: no session opens before every Recoverer has succeeded.
type Recoverer interface {
	Recover(ctx context.Context) error
}

// Closer is a plugin with resources that outlive its sessions and must end when its configuration is replaced, such as a
// goroutine or a handler of an informer.
//
// Close is called once. After a reload has put another configuration in force, it is called on the goroutine of sessions with no
// session open; if the configuration that the plugin was built for is refused, it is called at once. No session uses the plugin
// afterwards. Members in flight are not waited for: the plugin's steps, rollbacks and Bound may be called after Close, so the
// data they need must outlive it. Close does not block. A scheduler that ends closes no plugin.
type Closer interface {
	Close()
}

// PreBinder is a plugin's pre-bind step with a deadline and a rollback. It is looked for on the plugin itself, which outlives the
// session. The step has DefaultStepTimeout unless the plugin is a PreBindOptioner. A step without deadline or rollback of its own
// may be a function: Session.AddPreBindFn.
//
// Steps of a task run one after the other in the order of plugins in the conf, after its gang was allocated and before any member
// is bound; tasks run in parallel, so a step must be safe for concurrent use. The task is the step's own copy: annotations that
// the step sets on task.Pod are written with the Binding, in the same write that sets the pod's node. A step must be idempotent
// and light; it may wait, since it runs off the session loop.
type PreBinder interface {
	// PreBind prepares the task for the node. An error, a panic or a missed deadline fails the task.
	PreBind(ctx context.Context, task *api.TaskInfo, nodeName string) error
	// Rollback undoes PreBind for a task that will not be bound, including a PreBind that failed half-way. It is
	// called after PreBind has returned, and again with backoff until it returns nil or a NotFound API error. It is not
	// called when PreBind has not begun, unless the plugin is a Reserver.
	Rollback(ctx context.Context, task *api.TaskInfo, nodeName string) error
}

// PreBindOptioner is a PreBinder whose step has options: a deadline of its own (WithTimeout), a check before the gang is bound
// (WithPreCommitCheck), or a function that is notified of each task that is bound (WithBound).
type PreBindOptioner interface {
	PreBinder
	// PreBindOptions returns the options. It is called in each session.
	PreBindOptions() []PreBindOption
}

// Reserver reserves the resources that tasks will need on their nodes, for one plugin in one session. It is called from the
// scheduling goroutine only, also in trials. Plugins reserve in the order of the conf up to the first that fails, and are undone
// in the reverse order. The plugin must be a PreBinder, whose Rollback undoes the reservation once the task is handed over. A
// plugin whose pre-bind steps the conf disables reserves nothing, because nothing could undo it.
//
// Each task takes one of these paths, and unless it was bound may take another in a later trial or session:
//
//	Reserve ──► error                     nothing is reserved
//	   │
//	   ├──────► Unreserve                 the session took the placement back, or ended without having it bound
//	   │
//	   └──────► handed over to be bound   from here on it is the PreBinder's
//	               ├──► Rollback          whether PreBind has begun or not
//	               └──► bound             which WithBound reports
type Reserver interface {
	// Reserve is called when the session has placed the task on the node, or has nominated it there to wait for resources being
	// released. After an error nothing is reserved, and the placement is undone.
	Reserve(task *api.TaskInfo, node *api.NodeInfo) error
	// Unreserve undoes Reserve. It is called once for each Reserve that returned nil or panicked. The task may be another copy of
	// the task that was reserved for, so compare tasks by UID.
	Unreserve(task *api.TaskInfo)
}

// Signer is a plugin whose predicate and node scores allocate may cache: it says which tasks have equal results. It embeds
// DefaultSigner, whose answers are the most careful, and adds its predicate and scores with the methods of framework.Session. Any
// plugin that is not a Signer is assumed to have a predicate and scores that cannot be cached, and is called for each task on each
// node, which makes allocate slow. A plugin that has neither embeds NoFilter.
//
// A cached result on a node expires when the node changes. A panic counts as the answer of DefaultSigner, except that one of
// SignJob ends the cycle.
type Signer interface {
	// SignTask returns which other tasks the plugin's filter results and scores for this task also apply to.
	SignTask(task *api.TaskInfo) CacheScope
	// PodKeys returns the labels and annotations of pods that the predicate and the scores read. Pods that differ in others only
	// share cached results.
	PodKeys() PodKeys
	// SignJob returns a key of all properties of the job that PerJob results currently depend on: jobs with equal keys share them.
	// An empty key stands for jobs to which the plugin refuses no node. It is called for each result, so it must be quick. A
	// result that depends on placements on other nodes, such as of the job's members, may be cached if the key changes with them.
	SignJob(job *api.JobInfo) string
	// SignNode returns a key of everything that the filter results on the node depend on, except inputs that allocate compares
	// itself: the conf, the class of the task, and the node's object, resources and pods by UID. If all these are equal in two
	// sessions, the results and their reasons must be equal. With it allocate can reuse in the next session why gangs fit nowhere;
	// false keeps it from that.
	SignNode(node *api.NodeInfo) (key uint64, ok bool)
	// SignVolume returns a key of a volume with a claim: no filter result may depend on which of two volumes with equal keys a pod
	// has. Pods that differ only in such volumes are of one task class. The first plugin that returns a key decides; without one,
	// each pod with a claim of its own is a class of its own, because of the claim's name.
	SignVolume(pod *v1.Pod, volume *v1.Volume) string
	// SignClaim returns such a key of a resource claim.
	SignClaim(pod *v1.Pod, claim *v1.PodResourceClaim) string
	// Reach returns the only nodes that the plugin's predicate can accept for the task, for example the node of its local volume;
	// nil for any node. The task's pre-predicate has run. The first plugin that returns nodes decides: allocate calls the
	// predicates of all plugins for no other node.
	Reach(task *api.TaskInfo) *Reach
}

// PlacementGenerator names the nodes that a gang may, or should, be placed on: node groups, plans for the domains of a network, nodes
// to avoid.
type PlacementGenerator interface {
	// Placement returns where the job's tasks that are still to be placed may go; the zero value when the plugin has no preference.
	// It is called each time allocate takes up the job, and sees the members placed so far in the session. An error, or a panic,
	// keeps the job from being placed in this session and is the message of the job's PodGroup.
	Placement(job *api.JobInfo) (Placement, error)
}

// PlacementScorer scores trial placements of gangs in node groups; the highest sum over all plugins wins, ties are broken by the group's path.
type PlacementScorer interface {
	// ScoreNodeGroup returns the score of the trial. An error drops the candidate.
	ScoreNodeGroup(job *api.JobInfo, trial *NodeGroupTrial) (float64, error)
	// BeforeTrial reports whether scores do not depend on the placement, which is nil then. If so for all plugins, allocate tries
	// the candidates in the order of their scores and takes the first that holds the gang.
	BeforeTrial() bool
}

// GangGrouper forms gang groups: gangs that are placed and bound together. The first plugin that returns a gang group for a job decides.
type GangGrouper interface {
	// GangGroup returns the gangs that are placed and bound together with the job's, and the terms; nil when the gang has no terms
	// beside its minimum. All gangs of a gang group must get the same GangGroup. A panic ends the cycle: a gang must not be placed without
	// the others of its gang group.
	GangGroup(job *api.JobInfo) *binding.GangGroup
}

// Prioritizer selects jobs that allocate places first, before the order of queues, and of jobs in them, applies. The job is
// placed up to its minimum, and within its queue's limits. The order of jobs is not affected: preempt and reclaim choose their
// victims by it. If several plugins select a job, the first in the conf decides on its place.
type Prioritizer interface {
	// PlaceFirst reports whether the job holds, or has been promised, resources that are of no use before it is placed. only are the
	// tasks to place first; nil stands for all that its minimum needs. Its other tasks wait for the job's turn.
	PlaceFirst(job *api.JobInfo) (only map[api.TaskID]bool, first bool)
}

// EvictionObserver is notified of the session's evictions.
type EvictionObserver interface {
	// Evicted is called with each eviction once it is sent. It is never called for statements that are discarded. Deferred
	// evictions are sent when the session closes.
	Evicted(eviction Eviction)
}

// InfeasibilityChecker is a plugin that detects gangs that the cluster's nodes could never hold, even if all resources were released. It is
// looked for on the plugin itself.
type InfeasibilityChecker interface {
	// Infeasible reports whether no member of the admitted gang can be placed on the current nodes: resources promised to it would
	// only keep other gangs out. It is called before upstream's plugins open, and possibly before the checker's own
	// OnSessionOpen.
	Infeasible(ssn *Session, job *api.JobInfo) bool
}

// find returns the implementation of an interface by the plugin's value for the session, or else by the plugin itself.
func find[T any](plugin, inSession any) (T, bool) {
	if found, ok := inSession.(T); ok {
		return found, true
	}
	found, ok := plugin.(T)
	return found, ok
}
