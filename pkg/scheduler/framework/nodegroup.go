// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// NodeGroups says where a gang may be placed: the answer of a NodeGroupFn.
type NodeGroups struct {
	// Plugin is the one that answers; Session.NodeGroups sets it. Its predicate must accept every node of every candidate
	// for the gang, for as long as all members placed in the session lie in that candidate: allocate does not ask it there.
	Plugin string
	// Required is true if the gang's tasks may lie in one of the candidates only, all in the same. Otherwise the
	// candidates are preferred: a gang that fits into none of them whole is spread over the fewest of them, and over
	// nodes outside of them last.
	Required bool
	// Candidates are the groups that may hold the gang, disjoint and sorted by path. Within a candidate allocate
	// prefers one of its descendants that holds the gang, the narrowest level first.
	Candidates []*topology.Group
	// Refused says for groups that are no candidates why, by path, for the explanation of a gang that fits nowhere.
	Refused map[string]string
	// Compare orders the gang's tasks by rank: neighbours in this order are placed close to each other where that is
	// possible. It may be nil.
	Compare func(l, r *api.TaskInfo) int
}

// NodeGroupFn tells which node groups may hold the job's tasks that are still to be placed; it is asked each time
// allocate takes the job up, and sees the members placed by then in the session. It returns nil when the job has no
// wish. An error keeps the job from being placed in this session and is what the job's PodGroup says.
type NodeGroupFn func(job *api.JobInfo) (*NodeGroups, error)

// NodeGroupTrial is one candidate group of a gang, as NodeGroupOrderFns score it.
type NodeGroupTrial struct {
	// Group is the candidate, or the group in it the gang would be placed in.
	Group *topology.Group
	// Fill is the part of the group's room now that the tasks to be placed take, in [0, 1]. The room is that for the shape
	// of which the group takes most, in dominant shares of the cluster, by every plugin's verdict on each of its nodes. It is
	// 1 for a group that has less than they need, and 0 for one that has no room for them at all.
	Fill float64
	// Placement is the node of each task placed in the trial. It is nil for functions that are BeforeTrial.
	Placement map[api.TaskID]string
}

// NodeGroupOrderFn scores a trial placement of the job's gang; the highest sum over all plugins wins, ties are broken
// by the group's path. An error drops the candidate.
type NodeGroupOrderFn func(job *api.JobInfo, trial *NodeGroupTrial) (float64, error)

// NodeGroupOrderOption refines a NodeGroupOrderFn.
type NodeGroupOrderOption func(*nodeGroupOrder)

// BeforeTrial says that the score does not depend on the placement. When that is so of all functions, allocate tries
// the candidates in the order of their scores and takes the first that holds the gang.
func BeforeTrial() NodeGroupOrderOption {
	return func(o *nodeGroupOrder) { o.beforeTrial = true }
}

type nodeGroupOrder struct {
	plugin      string
	score       NodeGroupOrderFn
	beforeTrial bool
}

// SkipFn is true of a task on which the plugin has no say: its predicate refuses the task no node, and its scores are the same on all.
type SkipFn func(task *api.TaskInfo) bool

// UncacheableTaskFn is true of a task for which the plugin's verdict on one node depends on what is placed on others. Such tasks are
// placed one by one, and the plugin is asked again on every node for each.
type UncacheableTaskFn func(task *api.TaskInfo) bool

type namedNodeGroupFn struct {
	plugin string
	groups NodeGroupFn
}

// AddNodeGroupFn adds the plugin's say on node groups. The first plugin in conf order that returns groups for a job
// decides.
func (ssn *Session) AddNodeGroupFn(plugin string, fn NodeGroupFn) {
	ssn.nodeGroups = append(ssn.nodeGroups, namedNodeGroupFn{plugin, func(job *api.JobInfo) (groups *NodeGroups, err error) {
		defer recoverAs(plugin, &err)
		return fn(job)
	}})
}

// AddNodeGroupOrderFn adds the plugin's score of node groups.
func (ssn *Session) AddNodeGroupOrderFn(plugin string, fn NodeGroupOrderFn, opts ...NodeGroupOrderOption) {
	order := nodeGroupOrder{plugin: plugin, score: func(job *api.JobInfo, trial *NodeGroupTrial) (score float64, err error) {
		defer recoverAs(plugin, &err)
		return fn(job, trial)
	}}
	for _, opt := range opts {
		opt(&order)
	}
	ssn.nodeGroupOrders = append(ssn.nodeGroupOrders, order)
}

// AddSkipFn names the tasks on which the plugin has no say, for which allocate does not ask it.
func (ssn *Session) AddSkipFn(plugin string, fn SkipFn) { ssn.skips[plugin] = fn }

// AddUncacheableTaskFn names the tasks that the plugin must be asked about each time, whatever its VerdictScope.
func (ssn *Session) AddUncacheableTaskFn(plugin string, fn UncacheableTaskFn) {
	ssn.AddTaskScopeFn(plugin, func(task *api.TaskInfo) VerdictScope {
		if fn(task) {
			return Uncached
		}
		return PerTaskClass
	})
}

// AddTaskScopeFn says how far the plugin's verdicts and scores for a task hold, where that is less far than its VerdictScope.
func (ssn *Session) AddTaskScopeFn(plugin string, fn func(task *api.TaskInfo) VerdictScope) {
	ssn.taskScopes[plugin] = fn
}

// NodeGroups asks the plugins where the job may be placed; nil when none has a wish.
func (ssn *Session) NodeGroups(job *api.JobInfo) (*NodeGroups, error) {
	for _, fn := range ssn.nodeGroups {
		groups, err := fn.groups(job)
		if err != nil {
			return nil, fmt.Errorf("plugin %s: %w", fn.plugin, err)
		}
		if groups != nil {
			groups.Plugin = fn.plugin
			return groups, nil
		}
	}
	return nil, nil
}

// NodeGroupScore sums the plugins' scores of a trial. Without a placement only the BeforeTrial functions are asked.
func (ssn *Session) NodeGroupScore(job *api.JobInfo, trial *NodeGroupTrial) (float64, error) {
	var sum float64
	for _, order := range ssn.nodeGroupOrders {
		if trial.Placement == nil && !order.beforeTrial {
			continue
		}
		score, err := order.score(job, trial)
		if err != nil {
			return 0, fmt.Errorf("plugin %s: %w", order.plugin, err)
		}
		sum += score
	}
	return sum, nil
}

// ScoredBeforeTrial is true if every node group score is known before the trial.
func (ssn *Session) ScoredBeforeTrial() bool {
	for _, order := range ssn.nodeGroupOrders {
		if !order.beforeTrial {
			return false
		}
	}
	return true
}

// Skips is true if the plugin has no say on the task. A panic counts as no.
func (ssn *Session) Skips(plugin string, task *api.TaskInfo) (skips bool) {
	fn := ssn.skips[plugin]
	if fn == nil {
		return false
	}
	defer func() {
		if p := recover(); p != nil {
			klog.Background().Error(nil, "Plugin panicked", "plugin", plugin, "panic", p)
			skips = false
		}
	}()
	return fn(task)
}

// HasUncacheableTaskFn is true of a plugin that has called AddUncacheableTaskFn or AddTaskScopeFn.
func (ssn *Session) HasUncacheableTaskFn(plugin string) bool { return ssn.taskScopes[plugin] != nil }

// UncacheableTask is true if the plugin must be asked about the task each time.
func (ssn *Session) UncacheableTask(plugin string, task *api.TaskInfo) bool {
	return ssn.TaskScope(plugin, task) == Uncached
}

// TaskScope returns how far the plugin's verdicts for the task hold, as far as that is the task's doing. After a panic they hold for no other.
func (ssn *Session) TaskScope(plugin string, task *api.TaskInfo) (scope VerdictScope) {
	fn, ok := ssn.taskScopes[plugin]
	if !ok {
		return PerTaskClass
	}
	defer func() {
		if p := recover(); p != nil {
			klog.Background().Error(nil, "Plugin panicked", "plugin", plugin, "panic", p)
			scope = Uncached
		}
	}()
	return fn(task)
}
