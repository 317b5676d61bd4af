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
// A plugin that counts resources which Node and Pod objects do not report, such as devices, is also an
// accounting.ResourceCounter. It is found when the configuration is built (Profile.ResourceCounter), before the
// scheduler reads any pod, and may be called until another configuration with a ResourceCounter is in use, also after
// Close. Its panics are not recovered.
//
// All methods are called on the scheduling goroutine, except the steps of a PreBinder, Recover and the methods of a
// ResourceCounter. A panic counts as an
// error of the method, with the name of the plugin. If the method returns no error, the panic is logged and the
// plugin's answer is ignored, unless the method's documentation says otherwise. A panic of OnSessionOpen, InSession,
// OnSessionStart or OnSessionClose ends the cycle.
//
// A plugin explains why a gang waits with its answers, and has no interface for that alone: with the result of its
// JobValid function, with the reason of AdmissionVoter.RefuseAdmission, and with the errors of its predicate,
// pre-predicate, Placement and Reserve. Only actions, and built-in plugins, call Session.SetPendingReason.

// Plugin takes part in scheduling sessions. One instance lives as long as the configuration that names it. Each cycle
// opens and closes one session with it, always on the same goroutine.
type Plugin interface {
	// Name is the plugin's name in volcano-scheduler.conf.
	Name() string
	// OnSessionOpen registers the plugin's functions for this session.
	OnSessionOpen(ssn *Session)
	// OnSessionClose ends the plugin's part in the session. Pre-bind steps of the session may still be running. They
	// outlive the session, so they must not keep a reference to it.
	OnSessionClose(ssn *Session)
}

// SessionScoped is a plugin whose state belongs to one session. It supplies a value for each session. The framework
// looks for the interfaces of this file on the value first, and then on the plugin.
type SessionScoped interface {
	// InSession returns the value for the current session. It is called once, right after OnSessionOpen.
	InSession() any
}

// Starter is a plugin with work to do before the first action of a session, for example because it needs the other
// plugins. OnSessionStart is called after all plugins have opened.
type Starter interface {
	OnSessionStart(ssn *Session)
}

// Recoverer is a plugin that finds a former leader's writes for pods that were not bound, and undoes or adopts them.
// Recover is called after the informers have synced and before the leader's first session, which waits for it. If
// Recover returns an error, it is called again after a backoff. No session opens before every Recoverer has succeeded.
// So an error means that the plugin cannot work at all. A plugin retries single objects in the background
// (Unrecovered). Until it succeeds for an object, it refuses the pods that use this object. Tenants must not be able to
// delay Recover by more than seconds.
type Recoverer interface {
	Recover(ctx context.Context) error
}

// Closer is a plugin with resources that outlive its sessions and must end when its configuration is replaced, such as
// a goroutine or a handler of an informer.
//
// Close is called once. After a reload, it is called when another configuration is in use and no session is open, on
// the goroutine of sessions. If the plugin's own configuration is rejected, Close is called at once. No session uses
// the plugin afterwards. Close does not wait for members in flight. The plugin's steps, their rollbacks and the
// functions set by WithBound may be called after Close, so Close must leave the data that they need. Close does not
// block. When the scheduler ends, no plugin is closed.
type Closer interface {
	Close()
}

// PreBinder is a plugin's pre-bind step with a deadline and a rollback. The plugin itself must implement it, not its
// value for a session (SessionScoped), because the step outlives the session. The step has DefaultStepTimeout unless
// the plugin is a PreBindOptioner. A step that needs neither its own deadline nor a rollback may be a function:
// Session.AddPreBindFn.
//
// Steps of a task run one after the other, in the order of plugins in the conf. They run after the gang was allocated
// and before any member is bound. Steps of different tasks run in parallel, so a step must be safe for concurrent use.
// The task is the step's own copy. Annotations that the step sets on task.Pod are written with the Binding, in the same
// write that sets the pod's node. A step must be idempotent and light; it may wait, because it does not run on the
// scheduling goroutine.
type PreBinder interface {
	// PreBind prepares the task for the node. An error, a panic or a missed deadline fails the task.
	PreBind(ctx context.Context, task *api.TaskInfo, nodeName string) error
	// Rollback undoes PreBind for a task that will not be bound, even if PreBind failed halfway. It is called after
	// PreBind has returned. It is called again with backoff until it returns nil or a NotFound API error. If PreBind
	// has not begun, Rollback is called only for a plugin that is a Reserver.
	Rollback(ctx context.Context, task *api.TaskInfo, nodeName string) error
}

// PreBindOptioner is a PreBinder whose step has options: a deadline of its own (WithTimeout), a check before the gang
// is bound (WithPreCommitCheck), or a function that is notified of each task that is bound (WithBound).
type PreBindOptioner interface {
	PreBinder
	// PreBindOptions returns the options of the plugin's step. It is called in each session.
	PreBindOptions() []PreBindOption
}

// Reserver reserves the resources that tasks will need on their nodes, for one plugin in one session. It is called on
// the scheduling goroutine only, also in trials. Plugins reserve in the order of the conf. If one fails, the
// reservations of the plugins before it are undone in the reverse order. The plugin must be a PreBinder, whose Rollback
// undoes the reservation once the task is handed over. If the conf disables the plugin's pre-bind steps, the plugin
// reserves nothing, because nothing could undo it.
//
// Each placement of a task takes one of these paths. A task that was not bound may be placed again in a later trial or
// session:
//
//	Reserve ──► error                     nothing is reserved
//	   │
//	   ├──────► Unreserve                 the session took the placement back, or ended without having it bound
//	   │
//	   └──────► handed over to be bound   from here on, only the PreBinder may undo the reservation
//	               ├──► Rollback          whether PreBind has begun or not
//	               └──► bound             reported to the function of WithBound
type Reserver interface {
	// Reserve is called when the session has placed the task on the node, or has nominated the node for the task, which
	// then waits for resources being released there. If Reserve returns an error, nothing is reserved, and the placement
	// is undone.
	Reserve(task *api.TaskInfo, node *api.NodeInfo) error
	// Unreserve undoes Reserve. It is called once for each Reserve that returned nil or panicked. The task may be a
	// different copy of the task that Reserve was called with, so compare tasks by UID.
	Unreserve(task *api.TaskInfo)
}

// Signer is a plugin whose predicate and node scores allocate may cache, because it reports which tasks have equal
// results. It embeds DefaultSigner, whose answers allow the least caching, and adds its predicate and scores with the
// methods of framework.Session. For a plugin that is not a Signer, no result is cached: it is called for each task on
// each node, which makes allocate slow. A plugin that has neither a predicate nor scores embeds NoFilter.
//
// A cached result on a node expires when the node changes. If a method panics, the answer of DefaultSigner is used. But
// a panic of SignJob ends the cycle.
type Signer interface {
	// SignTask returns which other tasks the plugin's filter results and scores for this task also apply to.
	SignTask(task *api.TaskInfo) CacheScope
	// PodKeys returns the labels and annotations of pods that the predicate and the scores read. Pods that differ only
	// in other labels and annotations share cached results.
	PodKeys() PodKeys
	// SignJob returns a key of all properties of the job that the plugin's results currently depend on, if SignTask
	// returns PerJob for the job's tasks. Jobs with equal keys share these results. An empty key means that the plugin
	// refuses no node to the job. SignJob is called for each result, so it must be quick. A result that depends on
	// placements on other nodes, such as placements of the job's members, may be cached if the key changes with these
	// placements.
	SignJob(job *api.JobInfo) string
	// SignNode returns a key of the inputs of the filter results on the node. The key need not cover inputs that
	// allocate compares itself: the conf, the class of the task, and the node's object, resources and pods by UID. If
	// all of these and the key are equal in two sessions, the filter results and their reasons must be equal. With keys,
	// allocate can reuse in the next session the reason why a gang fits nowhere. If ok is false, allocate tries gangs in
	// each session.
	SignNode(node *api.NodeInfo) (key uint64, ok bool)
	// SignVolume returns a key of a volume with a claim. If two volumes have equal keys, no filter result may depend on
	// which of them a pod has. Pods that differ only in such volumes are of one task class. The first plugin that
	// returns a key decides. If no plugin does, each pod with a claim is a task class of its own, because of the claim's
	// name.
	SignVolume(pod *v1.Pod, volume *v1.Volume) string
	// SignClaim returns a key of a resource claim, with the same meaning as the key of SignVolume.
	SignClaim(pod *v1.Pod, claim *v1.PodResourceClaim) string
	// Reach returns the only nodes that the plugin's predicate can accept for the task, for example the node of its
	// local volume; nil for any node. It is called after the task's pre-predicate. The first plugin that returns nodes
	// decides: allocate calls the predicates of all plugins for no other node.
	Reach(task *api.TaskInfo) *Reach
	// Unresolvable reports whether no refusal of the plugin's predicate can be resolved by evictions. Such a predicate
	// runs before all others, wherever the plugin is in the conf. Upstream stops at the first predicate that refuses the
	// node. If evictions may resolve that refusal, preempt and reclaim consider the node usable, although a later
	// predicate may refuse it for good. Unresolvable is called once, when the plugin has opened.
	Unresolvable() bool
}

// PlacementGenerator says on which nodes a gang may, or should, be placed: in which node groups, how it is divided over
// the domains of a network (TopologyPlanner), and which nodes it should avoid.
type PlacementGenerator interface {
	// Placement returns where the job's tasks that are still to be placed may go; the zero value when the plugin has no
	// preference. It is called each time allocate begins to place the job, and sees the members placed so far in the
	// session. If it returns an error or panics, the job is not placed in this session, and the job's PodGroup reports
	// the error.
	Placement(job *api.JobInfo) (Placement, error)
}

// PlacementScorer scores trial placements of gangs in node groups. The node group with the highest sum of scores over
// all plugins wins. The path of the node group breaks ties.
type PlacementScorer interface {
	// ScoreNodeGroup returns the score of the trial. If it returns an error, the trial's node group is no longer a
	// candidate.
	ScoreNodeGroup(job *api.JobInfo, trial *NodeGroupTrial) (float64, error)
	// BeforeTrial reports whether the scores of ScoreNodeGroup do not depend on the trial's Placement, which is then
	// nil. If this is so for all plugins, allocate tries the candidates in the order of their scores and takes the first
	// that holds the gang.
	BeforeTrial() bool
}

// GangGrouper forms gang groups: gangs that are placed and bound together. The first plugin that returns a gang group
// for a job decides.
type GangGrouper interface {
	// GangGroup returns the gangs that are placed and bound together with the job's gang, and for each the conditions for
	// binding it beside its minimum (binding.GangTerms); nil when the job's gang has no such conditions. All gangs of a
	// gang group must get the same GangGroup. A panic ends the cycle, because a gang must not be placed without the other
	// gangs of its gang group.
	GangGroup(job *api.JobInfo) *binding.GangGroup
}

// Prioritizer selects jobs that allocate places first, before it orders queues and the jobs in them. A selected job is
// placed up to its minimum, and within its queue's limits. The session's job order is not changed, because preempt and
// reclaim choose their victims by this order. If several plugins select a job, the first in the conf decides.
type Prioritizer interface {
	// PlaceFirst reports whether the job holds, or has been promised, resources that are of no use before the job is
	// placed. The first result has the tasks to place first; nil stands for all tasks that the job's minimum needs. The
	// job's other tasks are placed in the usual order of jobs.
	PlaceFirst(job *api.JobInfo) (only map[api.TaskID]bool, first bool)
}

// EvictionTracker follows evictions until the gangs that evicted pods are placed: it is notified of each eviction, and
// names the tasks for which resources are being released and the pods that release them.
type EvictionTracker interface {
	// Evicted is called with each eviction once it is sent. Evictions of discarded statements are never sent.
	Evicted(eviction Eviction)
	// Nominees returns the tasks of the job for which resources are being released, because pods were evicted. It may
	// also name tasks of other jobs that are placed together with the job. Nominees may hold idle resources even while
	// their gang is paused (Pauser), so the plugin must limit how long it names them.
	Nominees(job *api.JobInfo) map[api.TaskID]bool
	// Leaving returns the tasks that give way to the gang of the task, such as victims of the gang. The plugin has removed
	// them from the use of queues (Discharge). A plugin that counts other amounts than requests must itself leave them
	// out, and only when it is called for that gang (QueueUse.Asked).
	Leaving(task *api.TaskInfo) []*api.TaskInfo
}

// AdmissionVoter is a plugin that may refuse to admit gangs. It votes before the plugins that vote by upstream's
// functions, the last AdmissionVoter in the conf first. If the conf disables the plugin's votes (enableJobEnqueued),
// neither method is called.
type AdmissionVoter interface {
	// RefuseAdmission returns why the gang must not be admitted now; nil if the plugin does not refuse it. The reason is
	// reported as the gang's pending reason. It is called again for a gang that waits when the session closes.
	RefuseAdmission(job *api.JobInfo) *PendingReason
	// Infeasible reports whether the cluster's nodes could never hold the admitted gang, even if all resources were
	// released. The gang then does not limit how many other gangs of its namespace are admitted.
	Infeasible(job *api.JobInfo) bool
}

// Pauser is an action that pauses gangs, so that they do not hold idle resources for long while they wait for more
// resources to be released. The framework finds Pausers among the registered actions. Plugins and other actions call
// Session.Paused.
type Pauser interface {
	// Paused reports whether gangs in the namespace of the job, or of a job that is placed together with it, have held
	// idle resources for too long. If evictions would let a paused job hold further idle resources, no pods are evicted
	// for it.
	Paused(ssn *Session, job *api.JobInfo) bool
}

// find returns the value that implements interface T: the plugin's value for the session, or else the plugin itself.
func find[T any](plugin, inSession any) (T, bool) {
	if found, ok := inSession.(T); ok {
		return found, true
	}
	found, ok := plugin.(T)
	return found, ok
}
