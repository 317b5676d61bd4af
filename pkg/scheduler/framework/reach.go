// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// Reach is the only nodes that a plugin's predicate can accept for a task, whatever is placed where, and its refusal of all others.
type Reach struct {
	Nodes   []string
	Refusal *api.FitError
}

// ReachFn returns the task's reach; nil when it may be any node. The task's pre-predicate has run.
type ReachFn func(task *api.TaskInfo) *Reach

type namedReachFn struct {
	plugin string
	fn     ReachFn
}

// AddReachFn has allocate ask the predicates of all plugins about no other node than the function names. Use it from OnSessionOpen
// where a task, such as one with a local volume, can go to few of many nodes. One plugin can do so; the first counts.
func (ssn *Session) AddReachFn(plugin string, fn ReachFn) {
	if ssn.reach.fn == nil {
		ssn.reach = namedReachFn{plugin, fn}
	}
}

// Reach returns the task's reach; nil for all nodes, also when the plugin's predicate is off or the function panics.
func (ssn *Session) Reach(task *api.TaskInfo) (reach *Reach) {
	if ssn.reach.fn == nil {
		return nil
	}
	if option, found := ssn.PluginOption(ssn.reach.plugin); !found || option.EnabledPredicate == nil || !*option.EnabledPredicate {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			klog.Background().Error(nil, "Plugin panicked", "plugin", ssn.reach.plugin, "panic", p)
			reach = nil
		}
	}()
	return ssn.reach.fn(task)
}
