// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// NodeKeyFn returns a key of all that the plugin's verdicts on the node follow from now, beside what allocate compares by itself: the conf, the class of the
// task, and the node's object, resources and pods by UID. Where all these are equal in two sessions, the verdicts and their reasons are equal.
type NodeKeyFn func(node *api.NodeInfo) uint64

// AddNodeKeyFn lets allocate reuse, in the next session, why gangs fit nowhere on which the plugin has verdicts. Without it such gangs are tried in each session.
func (ssn *Session) AddNodeKeyFn(plugin string, fn NodeKeyFn) {
	inputs := ssn.inputsOf(plugin)
	inputs.nodeKey = fn
	ssn.verdictInputs[plugin] = inputs
}

// NodeKey returns the plugin's key of the node; false when it has none, or panics.
func (ssn *Session) NodeKey(plugin string, node *api.NodeInfo) (key uint64, ok bool) {
	fn := ssn.inputsOf(plugin).nodeKey
	if fn == nil {
		return 0, false
	}
	defer func() {
		if p := recover(); p != nil {
			klog.Background().Error(nil, "Plugin panicked", "plugin", plugin, "panic", p)
			key, ok = 0, false
		}
	}()
	return fn(node), true
}
