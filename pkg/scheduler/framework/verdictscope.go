// SPDX-License-Identifier: Apache-2.0

package framework

import (
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	resourcestrategyfit "volcano.sh/volcano/pkg/scheduler/plugins/resource-strategy-fit"
)

// VerdictScope is how far a plugin's predicate and node scores hold: for which tasks besides the one it was asked about. It
// tells allocate how long it may keep them. The zero value is the most careful.
type VerdictScope int

const (
	// Uncached is asked again on every node for every task.
	Uncached VerdictScope = iota
	// PerJob holds for tasks of one class (see PerTaskClass) in one job, or in the jobs that have one key (AddJobKeyFn): it is
	// kept for these, and asked again on a node that has changed.
	PerJob
	// PerTaskClass holds for all tasks of a class: those with equal requests, constraints, priority and role, and equal labels
	// and annotations as far as the plugin reads them. It is kept for the tasks of a class in all jobs of the session, and
	// asked again on a node that has changed.
	PerTaskClass
)

// verdictInputs are what a plugin's verdicts and scores depend on.
type verdictInputs struct {
	scope VerdictScope
	reads PodKeys
	// nodeKey is nil where a verdict holds for one session only.
	nodeKey NodeKeyFn
	// registersHere is PluginSpec.RegistersHere.
	registersHere bool
}

// registered is what a plugin has added.
type registered struct{ predicate, score bool }

// perTaskClass are the inputs of a plugin that tells no tasks of a class apart, and of labels and annotations reads the keys
// only.
func perTaskClass(keys ...string) verdictInputs {
	return verdictInputs{scope: PerTaskClass, reads: SomePodKeys(keys...)}
}

// upstreamInputs are those of upstream's plugins. Those without predicate or score are PerTaskClass: there is nothing to keep.
// A plugin that is not listed, such as one loaded from a shared object, is Uncached and reads everything.
var upstreamInputs = map[string]verdictInputs{
	"binpack":                perTaskClass(),
	"capacity":               perTaskClass(),
	"cdp":                    perTaskClass(),
	"conformance":            perTaskClass(),
	"drf":                    perTaskClass(),
	"gang":                   perTaskClass(),
	"extender":               {scope: Uncached}, // its servers are sent the whole pod
	"network-topology-aware": {scope: Uncached, reads: SomePodKeys()},
	"nodegroup":              {scope: PerJob, reads: SomePodKeys()}, // its affinity is the queue's
	"nodeorder":              perTaskClass(),
	"numa-aware":             {scope: Uncached, reads: SomePodKeys(v1beta1.NumaPolicyKey)},
	"overcommit":             perTaskClass(),
	"pdb":                    perTaskClass(),
	"predicates":             perTaskClass(), // allocate finds the tasks it must be asked about each time
	"priority":               perTaskClass(),
	"proportion":             perTaskClass(),
	"rescheduling":           perTaskClass(),
	"resource-strategy-fit":  perTaskClass(resourcestrategyfit.ResourceStrategyAnnotationKey, resourcestrategyfit.ResourceStrategyWeightAnnotationKey),
	"resourcequota":          perTaskClass(),
	"sla":                    perTaskClass(),
	"task-topology":          {scope: Uncached, reads: SomePodKeys()}, // the role is part of the class
	"tdm":                    perTaskClass(),                          // the revocable zone is the task's
	"usage":                  perTaskClass(),
}

// VerdictScopeOf returns how far the named plugin's verdicts and scores hold.
func (ssn *Session) VerdictScopeOf(plugin string) VerdictScope { return ssn.inputsOf(plugin).scope }

// PodKeysOf returns the labels and annotations of pods that the named plugin's verdicts and scores depend on.
func (ssn *Session) PodKeysOf(plugin string) PodKeys { return ssn.inputsOf(plugin).reads }

func (ssn *Session) inputsOf(plugin string) verdictInputs {
	if inputs, ours := ssn.verdictInputs[plugin]; ours {
		return inputs
	}
	return upstreamInputs[plugin]
}

// setUncached has the plugin asked for every task from now on.
func (ssn *Session) setUncached(plugin string) {
	inputs := ssn.inputsOf(plugin)
	inputs.scope = Uncached
	ssn.verdictInputs[plugin] = inputs
	ssn.noteScore(plugin)
}

// noteScore records that the plugin has added a score.
func (ssn *Session) noteScore(plugin string) {
	ssn.registered[plugin] = registered{predicate: ssn.registered[plugin].predicate, score: true}
}

// MayScore reports whether the plugin may have a say in which of the nodes that fit is best. Only of plugins that register here it is known that they
// have none.
func (ssn *Session) MayScore(plugin string) bool {
	return !ssn.inputsOf(plugin).registersHere || ssn.registered[plugin].score
}

// onlyScores are upstream's plugins without a predicate.
var onlyScores = map[string]bool{"network-topology-aware": true, "task-topology": true}

// onTheClock are upstream's plugins that refuse nodes by the time of day, or by the age of their measurements.
var onTheClock = map[string]bool{"tdm": true, "usage": true}

// OnTheClock is true of a plugin whose verdicts may be others in the next session though nothing has changed.
func (ssn *Session) OnTheClock(plugin string) bool {
	_, ours := ssn.verdictInputs[plugin]
	return !ours && onTheClock[plugin]
}

// JudgesNodes reports whether a plugin of this project may refuse nodes, by what only it knows.
func (ssn *Session) JudgesNodes(plugin string) bool {
	inputs, ours := ssn.verdictInputs[plugin]
	return ours && (!inputs.registersHere || ssn.registered[plugin].predicate)
}

// ExplainsShortage has a node that is short of nothing but these resources asked about by the plugins that judge nodes, one of which says better than
// sums what is missing.
func (ssn *Session) ExplainsShortage(of ...v1.ResourceName) {
	for _, name := range of {
		ssn.explainsShortage[name] = true
	}
}

// IsShortageExplained is true of a resource that ExplainsShortage names.
func (ssn *Session) IsShortageExplained(of string) bool {
	return ssn.explainsShortage[v1.ResourceName(of)]
}

// MayRefuse is false of a plugin that never refuses a node.
func (ssn *Session) MayRefuse(plugin string) bool {
	_, ours := ssn.verdictInputs[plugin]
	return ours || !onlyScores[plugin]
}

// AddBestNodeFn adds a plugin's choice among the scored nodes. It is asked for every task: the plugin counts as
// Uncached, whatever it declares.
func (ssn *Session) AddBestNodeFn(plugin string, fn api.BestNodeFn) {
	ssn.setUncached(plugin)
	ssn.Session.AddBestNodeFn(plugin, fn)
}

// AddNodeMapFn adds a score of a node that the plugin's NodeReduceFn scales. The plugin counts as Uncached.
func (ssn *Session) AddNodeMapFn(plugin string, fn api.NodeMapFn) {
	ssn.setUncached(plugin)
	ssn.Session.AddNodeMapFn(plugin, fn)
}

// AddNodeReduceFn adds what scales the scores of the plugin's NodeMapFn. The plugin counts as Uncached.
func (ssn *Session) AddNodeReduceFn(plugin string, fn api.NodeReduceFn) {
	ssn.setUncached(plugin)
	ssn.Session.AddNodeReduceFn(plugin, fn)
}

// AsksServer is true of the plugin of upstream's that asks a server for its verdicts, one call each.
func AsksServer(plugin string) bool { return plugin == "extender" }
