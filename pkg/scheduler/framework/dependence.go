// SPDX-License-Identifier: Apache-2.0

package framework

import "volcano.sh/volcano/pkg/scheduler/api"

// Dependence says what a plugin's predicate and node scores depend on besides the node itself, so that allocate knows
// how long a verdict stays true. The zero value is the most careful.
type Dependence int

const (
	// OnAnything is asked again on every node for every task.
	OnAnything Dependence = iota
	// OnJob depends on the task's shape and on its job or queue: the verdict is kept for equal tasks of one job, or of the
	// jobs that have one key (AddJobKeyFn), and asked again on a node that has changed.
	OnJob
	// OnShape depends on the task's shape only (its requests, constraints, annotations, priority and role): the verdict
	// is kept for equal tasks of all jobs in the session, and asked again on a node that has changed.
	OnShape
)

// upstreamDependence classes upstream's plugins. Those without predicate or score are OnShape: there is nothing to keep.
// A plugin not listed, such as one loaded from a shared object, is OnAnything.
var upstreamDependence = map[string]Dependence{
	"binpack":               OnShape,
	"capacity":              OnShape,
	"cdp":                   OnShape,
	"conformance":           OnShape,
	"deviceshare":           OnShape,
	"drf":                   OnShape,
	"gang":                  OnShape,
	"nodegroup":             OnJob, // its affinity is the queue's
	"nodeorder":             OnShape,
	"overcommit":            OnShape,
	"pdb":                   OnShape,
	"predicates":            OnShape, // tasks it couples are found by allocate
	"priority":              OnShape,
	"proportion":            OnShape,
	"rescheduling":          OnShape,
	"resource-strategy-fit": OnShape,
	"resourcequota":         OnShape,
	"sla":                   OnShape,
	"tdm":                   OnShape, // the revocable zone is the task's
	"usage":                 OnShape,
}

// DependenceOf returns the class of the named plugin.
func (ssn *Session) DependenceOf(plugin string) Dependence {
	if d, ours := ssn.dependence[plugin]; ours {
		return d
	}
	return upstreamDependence[plugin]
}

// AddBestNodeFn adds a plugin's choice among the scored nodes. It is asked for every task: the plugin counts as
// OnAnything, whatever it declares.
func (ssn *Session) AddBestNodeFn(plugin string, fn api.BestNodeFn) {
	ssn.dependence[plugin] = OnAnything
	ssn.Session.AddBestNodeFn(plugin, fn)
}

// AddNodeMapFn adds a score of a node that the plugin's NodeReduceFn scales. The plugin counts as OnAnything.
func (ssn *Session) AddNodeMapFn(plugin string, fn api.NodeMapFn) {
	ssn.dependence[plugin] = OnAnything
	ssn.Session.AddNodeMapFn(plugin, fn)
}

// AddNodeReduceFn adds what scales the scores of the plugin's NodeMapFn. The plugin counts as OnAnything.
func (ssn *Session) AddNodeReduceFn(plugin string, fn api.NodeReduceFn) {
	ssn.dependence[plugin] = OnAnything
	ssn.Session.AddNodeReduceFn(plugin, fn)
}
