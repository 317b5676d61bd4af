// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"maps"

	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/devices"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/snapshot"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/upstream"
)

// Cache is the part of the scheduler's cache that sessions use: upstream's interface and the methods for bind
// transactions.
type Cache interface {
	vccache.Cache
	// AddToTransaction reserves the task's resources and adds the task to an open transaction. The transaction is that
	// of the gang group, or that of the task's gang if gangGroup is nil. decided are the annotations that the session
	// set on the task. steps are the task's pre-bind steps. After an error the cache is unchanged.
	AddToTransaction(bindCtx *vccache.BindContext, gangGroup *binding.GangGroup, decided map[string]string, steps []binding.Step) error
	// SealTransactions submits the open transactions to the binding engine. It is idempotent.
	SealTransactions()
	// ReleaseIncomplete drops the open transactions in which a gang is below its minimum. It returns the tasks of the
	// dropped transactions by gang. These tasks are Pending again, or will be soon.
	ReleaseIncomplete() map[api.JobID][]api.TaskID
	// EvictTogether evicts the tasks. After an error none of them is evicted. If a task cannot be evicted later, the tasks whose
	// eviction has not begun stay.
	EvictTogether(all []Eviction) error
}

// Snapshotter is a Cache that reuses unchanged parts of a snapshot from session to session.
type Snapshotter interface {
	// SessionSnapshot returns the snapshot for the session that opens now, its nodes in their other forms, and the
	// annotations of the pending tasks' pods, which are read-only. The last session must have ended, because unchanged
	// parts of its snapshot are used again.
	SessionSnapshot() (given *api.ClusterInfo, forms snapshot.NodeForms, annotations map[api.TaskID]map[string]string)
	// TrustSession is called when a session has closed whose plugins and actions are known to change placed tasks only
	// by the methods of JobInfo and NodeInfo, and only of the touched jobs and nodes. The next snapshot then compares less
	// with the cache.
	TrustSession(touched snapshot.Touched)
}

// sessionCache is the cache as one session sees it. A task that upstream's statements and plugins bind through
// sessionCache gets this session's pre-bind steps.
type sessionCache struct {
	Cache
	session *Session
	// annotations are the annotations of each pending task when the session began. If a task's annotation differs from
	// this copy, the session set it. The cache's own pods cannot be compared instead, because users may have changed
	// their annotations since then.
	annotations map[api.TaskID]map[string]string
	// staging keeps in memory the annotations that upstream's device code writes, until the task is handed over; nil if
	// no kind of devices that upstream shares among pods is enabled.
	staging *devices.Staging
	// snapshotter is the cache, if it is a Snapshotter and the first plugin to open is a plugin of this project; else
	// nil. deferred is the part of the snapshot that is hidden from upstream until that plugin opens.
	snapshotter Snapshotter
	deferred    *upstream.Deferred
	closing     upstream.ClosingJobs
}

// Snapshot takes the session's snapshot and records the annotations of its pending pods before any plugin sees them.
func (c *sessionCache) Snapshot() *api.ClusterInfo {
	if c.snapshotter == nil {
		whole := c.Cache.Snapshot()
		c.noteAnnotations(whole, copyAnnotations(whole))
		return whole
	}
	given, forms, annotations := c.snapshotter.SessionSnapshot()
	c.noteAnnotations(given, annotations)
	c.deferred = upstream.Defer(given, forms.Kube, forms.Total)
	return given
}

func (c *sessionCache) noteAnnotations(snapshot *api.ClusterInfo, annotations map[api.TaskID]map[string]string) {
	c.annotations = annotations
	if c.staging != nil {
		c.staging.Begin(annotations, snapshot)
	}
}

// copyAnnotations returns copies of the annotations of the pending tasks' pods.
func copyAnnotations(snapshot *api.ClusterInfo) map[api.TaskID]map[string]string {
	copies := map[api.TaskID]map[string]string{}
	for _, job := range snapshot.Jobs {
		for uid, task := range job.TaskStatusIndex[api.Pending] {
			copies[uid] = maps.Clone(task.Pod.Annotations)
		}
	}
	return copies
}

// decided returns the annotations that the session's plugins set on the task's pod.
func (c *sessionCache) decided(task *api.TaskInfo) map[string]string {
	decided := maps.Clone(task.Pod.Annotations)
	maps.DeleteFunc(decided, func(key, value string) bool {
		if _, own := c.session.stagedAnnotations[task.UID][key]; own {
			return false
		}
		before, ok := c.annotations[task.UID][key]
		return ok && before == value
	})
	return decided
}

// AddBindTask adds the task, with its pre-bind steps, to its gang's transaction. It refuses a task that lacks the
// devices it requests, and a task that a plugin could not reserve for. Such tasks get here because some upstream
// actions do not check whether a placement failed.
func (c *sessionCache) AddBindTask(bindCtx *vccache.BindContext) error {
	if err := c.session.reservers.refused[bindCtx.TaskInfo.UID]; err != nil {
		return err
	}
	steps := c.session.chain.of(bindCtx)
	if c.staging != nil {
		locks, err := c.staging.Steps(bindCtx.TaskInfo, c.Cache.Client())
		if err != nil {
			return err
		}
		steps = append(steps, locks...)
	}
	var gangGroup *binding.GangGroup
	if job := c.session.Jobs[bindCtx.TaskInfo.Job]; job != nil {
		gangGroup = c.session.Placements.GangGroup(job)
	}
	if err := c.AddToTransaction(bindCtx, gangGroup, c.decided(bindCtx.TaskInfo), steps); err != nil {
		return err
	}
	c.session.committed[bindCtx.TaskInfo.UID] = true
	delete(c.session.reservers.reserved, bindCtx.TaskInfo.UID)
	return nil
}

// Client returns the client that the session's plugins use for writes.
func (c *sessionCache) Client() kubernetes.Interface {
	if c.staging == nil {
		return c.Cache.Client()
	}
	return c.staging.Client()
}

// RegisterBinder adds an upstream PreBinder to the session's chain, at the position of its plugin in the conf.
func (c *sessionCache) RegisterBinder(name string, binder any) {
	if pb, ok := binder.(vccache.PreBinder); ok {
		c.session.chain.upstream[name] = pb
	}
}

// UpdateJobStatus writes the gang's status at the end of the session. For a gang that waits, the status contains the
// reason.
func (c *sessionCache) UpdateJobStatus(job *api.JobInfo, updateStatus, updateAnnotations, updateJobInfo bool) (*api.JobInfo, error) {
	c.session.Reporter.Show(c.session, job)
	if c.staging == nil { // otherwise upstream still reads each task's devices, so no task with the sum of requests (upstream.Summaries) may replace the tasks
		defer c.closing.Written(job)
	}
	return c.Cache.UpdateJobStatus(job, updateStatus, updateAnnotations, updateJobInfo)
}

// OnSessionClose seals the transactions of the session's actions. Upstream calls it twice for each session.
func (c *sessionCache) OnSessionClose() {
	c.closing.Closed()
	if c.staging != nil {
		c.staging.Close()
	}
	c.SealTransactions()
	c.Cache.OnSessionClose()
}

// OpenSession opens a session of the profile on a snapshot of the cache.
func (r *Registry) OpenSession(cache Cache, p *Profile) *Session {
	ssn := newSession(p.preBindOrder)
	ssn.cache, ssn.Signers.explained = cache, p.explained
	ssn.pending.categories, ssn.currentJob.begins = r.categories, r.jobBegins
	if r.Reporter != nil {
		ssn.Reporter = r.Reporter
	}
	opening := &sessionCache{Cache: cache, session: ssn, staging: devices.NewStaging(cache.Client())}
	ssn.pausers = r.pausers()
	if p.known {
		ssn.touched = &snapshot.Touched{Nodes: map[string]bool{}, Jobs: map[api.JobID]bool{}}
	}
	if p.opensWithOurs() {
		opening.snapshotter, _ = cache.(Snapshotter)
	}
	r.mu.Lock()
	r.opening, r.profile, r.last = opening, p, ssn
	clear(r.views) // remove sessions that panicked, and so were never closed
	r.mu.Unlock()
	upstream := vcframework.OpenSession(opening, p.Tiers, p.Configurations)
	r.view(upstream)
	if opening.staging != nil {
		opening.staging.Watch(upstream)
	}
	r.mu.Lock()
	r.opening = nil
	r.mu.Unlock()
	for _, name := range p.pluginOrder {
		if starter, ok := p.plugins[name].(Starter); ok {
			starter.OnSessionStart(ssn)
		}
	}
	return ssn
}

// CloseSession closes the session: its transactions are sealed, and the statuses of its gangs are written.
func (r *Registry) CloseSession(ssn *Session) {
	ssn.Action = "" // plugins that are called during the close run outside of any action
	ssn.seal()
	ssn.QueueUse.evicted = len(ssn.evictions.sent) > 0
	ssn.pending.reasons = ssn.Reporter.Decide(ssn)
	undoPlacements(ssn)
	vcframework.CloseSession(ssn.Session)
	r.mu.Lock()
	if snapshotter, ok := ssn.cache.(Snapshotter); ok && ssn.touched != nil {
		snapshotter.TrustSession(*ssn.touched)
		r.pods.Keep()
	}
	delete(r.views, ssn.Session)
	r.mu.Unlock()
}

// attach connects the session to upstream's session, which it embeds.
func (ssn *Session) attach(upstream *vcframework.Session) {
	ssn.Session, ssn.QueueUse.upstream = upstream, upstream
	ssn.QueueUse.leaving, ssn.QueueUse.nested = ssn.Placements.leaving, upstream.HierarchyEnabled("capacity")
	if ssn.touched != nil {
		touch := func(event *vcframework.Event) {
			ssn.touched.Nodes[event.Task.NodeName], ssn.touched.Jobs[event.Task.Job] = true, true
		}
		upstream.AddEventHandler(&vcframework.EventHandler{AllocateFunc: touch, DeallocateFunc: touch})
	}
}

// seal submits the session's placements after the last action. Members of gangs that are still below their minimum
// become Pending again. They then report the reason that stops the rest of their gang.
func (ssn *Session) seal() {
	for gang, tasks := range ssn.cache.ReleaseIncomplete() {
		job := ssn.Jobs[gang]
		if job == nil {
			continue
		}
		delete(ssn.pending.reasons, gang)
		for _, uid := range tasks {
			task := job.Tasks[uid]
			if task == nil || !ssn.committed[uid] { // a session that panicked handed the task over, so it has no placement in this session
				continue
			}
			if err := job.UpdateTaskStatus(task, api.Pending); err != nil {
				klog.Background().Error(err, "Resetting a member of an unplaced gang to Pending failed", "pod", klog.KObj(task.Pod))
			}
			task.NodeName, task.Pod.Spec.NodeName = "", ""
		}
	}
	ssn.cache.SealTransactions()
}

// view returns the Session of this project that embeds upstream's session.
func (r *Registry) view(upstream *vcframework.Session) *Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ssn, ok := r.views[upstream]; ok {
		return ssn
	}
	ssn := r.opening.session
	ssn.attach(upstream)
	r.views[upstream] = ssn
	if deferred := r.opening.deferred; deferred != nil {
		deferred.Complete(upstream, &r.pods)
	}
	return ssn
}

func (r *Registry) plugin(name string) Plugin {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.profile.plugins[name]
}

// pluginAdapter is a plugin of this project as upstream's session calls it.
type pluginAdapter struct {
	registry *Registry
	name     string
}

func (a *pluginAdapter) Name() string { return a.name }

func (a *pluginAdapter) OnSessionOpen(upstream *vcframework.Session) {
	plugin, ssn := a.registry.plugin(a.name), a.registry.view(upstream)
	plugin.OnSessionOpen(ssn)
	a.find(ssn, plugin)
}

func (a *pluginAdapter) OnSessionClose(upstream *vcframework.Session) {
	a.registry.plugin(a.name).OnSessionClose(a.registry.view(upstream))
}

// find looks up which interfaces of contract.go the opened plugin implements, and registers the plugin for each of them
// with the session.
func (a *pluginAdapter) find(ssn *Session, plugin Plugin) {
	var inSession any
	if scoped, ok := plugin.(SessionScoped); ok {
		inSession = scoped.InSession()
	}
	if pb, ok := plugin.(PreBinder); ok {
		reserver, reserves := find[Reserver](plugin, inSession)
		ssn.chain.addPreBinder(a.name, pb, reserves)
		if reserves && ssn.chain.enabled(a.name) {
			ssn.reservers.add(ssn.Session, a.name, reserver)
		}
	}
	option, _ := ssn.PluginOption(a.name)
	ssn.Signers.add(a.name, plugin, inSession, isOn(option.EnabledPredicate))
	if ssn.Signers.unresolvable(a.name) {
		ssn.Tiers = askFirst(ssn.Tiers, a.name, predicateOption)
	}
	if voter, votes := find[AdmissionVoter](plugin, inSession); votes && isOn(option.EnabledJobEnqueued) {
		ssn.addVoter(a.name, voter)
	}
	ssn.Placements.add(a.name, plugin, inSession)
}

func isOn(option *bool) bool { return option != nil && *option }

// actionAdapter is an action of this project as upstream calls it.
type actionAdapter struct {
	registry *Registry
	action   Action
}

func (a *actionAdapter) Name() string  { return a.action.Name() }
func (a *actionAdapter) Initialize()   {}
func (a *actionAdapter) UnInitialize() {}

func (a *actionAdapter) Execute(upstream *vcframework.Session) {
	a.action.Execute(a.registry.view(upstream))
}
