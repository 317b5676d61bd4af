// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	resourcestrategyfit "volcano.sh/volcano/pkg/scheduler/plugins/resource-strategy-fit"
)

// Dependence says what a plugin's predicate and node scores depend on besides the node itself, so that allocate knows
// how long a verdict stays true. The zero value is the most careful.
type Dependence int

const (
	// OnAnything is asked again on every node for every task.
	OnAnything Dependence = iota
	// OnJob depends on the task's shape and on its job or queue: the verdict is kept for equal tasks of one job, or of the
	// jobs that have one key (AddJobKeyFn), and asked again on a node that has changed.
	OnJob
	// OnShape depends on the task's shape only (its requests, constraints, priority and role, and the labels and annotations
	// that the plugin reads): the verdict is kept for equal tasks of all jobs in the session, and asked again on a node that
	// has changed.
	OnShape
)

// verdictScope says what a plugin's verdicts and scores depend on.
type verdictScope struct {
	dependence Dependence
	reads      PodKeys
}

// onShape is the scope of plugins that depend on the task's shape, of labels and annotations on the keys only.
func onShape(keys ...string) verdictScope { return verdictScope{OnShape, SomePodKeys(keys...)} }

// upstreamScopes are those of upstream's plugins. Those without predicate or score are OnShape: there is nothing to keep.
// A plugin not listed, such as one loaded from a shared object, is OnAnything and reads everything.
var upstreamScopes = map[string]verdictScope{
	"binpack":                onShape(),
	"capacity":               onShape(),
	"cdp":                    onShape(),
	"conformance":            onShape(),
	"deviceshare":            onShape(deviceKeys...),
	"drf":                    onShape(),
	"gang":                   onShape(),
	"extender":               {OnAnything, PodKeys{}}, // its servers are sent the whole pod
	"network-topology-aware": {OnAnything, SomePodKeys()},
	"nodegroup":              {OnJob, SomePodKeys()}, // its affinity is the queue's
	"nodeorder":              onShape(),
	"numaaware":              {OnAnything, SomePodKeys(v1beta1.NumaPolicyKey, "volcano.sh/topology-decision")},
	"overcommit":             onShape(),
	"pdb":                    onShape(),
	"predicates":             onShape(), // tasks it couples are found by allocate
	"priority":               onShape(),
	"proportion":             onShape(),
	"rescheduling":           onShape(),
	"resource-strategy-fit":  onShape(resourcestrategyfit.ResourceStrategyAnnotationKey, resourcestrategyfit.ResourceStrategyWeightAnnotationKey),
	"resourcequota":          onShape(),
	"sla":                    onShape(),
	"task-topology":          {OnAnything, SomePodKeys()}, // the role is part of the shape
	"tdm":                    onShape(),                   // the revocable zone is the task's
	"usage":                  onShape(),
}

// deviceKeys are what the devices of deviceshare look at of a pod: which cards it wants or has, and how it shares them.
var deviceKeys = []string{
	"nvidia.com/", "volcano.sh/vgpu-mode", "volcano.sh/gpu-index",
	"hami.io/", "huawei.com/", "ring-controller.atlas", "vnpu-level", "vnpu-dvpp",
}

// DependenceOf returns the class of the named plugin.
func (ssn *Session) DependenceOf(plugin string) Dependence { return ssn.scopeOf(plugin).dependence }

// PodKeysOf returns the labels and annotations of pods that the named plugin's verdicts and scores depend on.
func (ssn *Session) PodKeysOf(plugin string) PodKeys { return ssn.scopeOf(plugin).reads }

func (ssn *Session) scopeOf(plugin string) verdictScope {
	if scope, ours := ssn.scopes[plugin]; ours {
		return scope
	}
	return upstreamScopes[plugin]
}

// onAnything has the plugin asked for every task from now on.
func (ssn *Session) onAnything(plugin string) {
	scope := ssn.scopeOf(plugin)
	scope.dependence = OnAnything
	ssn.scopes[plugin] = scope
}

// AddBestNodeFn adds a plugin's choice among the scored nodes. It is asked for every task: the plugin counts as
// OnAnything, whatever it declares.
func (ssn *Session) AddBestNodeFn(plugin string, fn api.BestNodeFn) {
	ssn.onAnything(plugin)
	ssn.Session.AddBestNodeFn(plugin, fn)
}

// AddNodeMapFn adds a score of a node that the plugin's NodeReduceFn scales. The plugin counts as OnAnything.
func (ssn *Session) AddNodeMapFn(plugin string, fn api.NodeMapFn) {
	ssn.onAnything(plugin)
	ssn.Session.AddNodeMapFn(plugin, fn)
}

// AddNodeReduceFn adds what scales the scores of the plugin's NodeMapFn. The plugin counts as OnAnything.
func (ssn *Session) AddNodeReduceFn(plugin string, fn api.NodeReduceFn) {
	ssn.onAnything(plugin)
	ssn.Session.AddNodeReduceFn(plugin, fn)
}

// AsksServer says whether upstream's plugin asks a server for its verdicts, one call each.
func AsksServer(plugin string) bool { return plugin == "extender" }
