// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	resourcestrategyfit "volcano.sh/volcano/pkg/scheduler/plugins/resource-strategy-fit"
)

// verdictInputs describes the inputs of the verdicts and scores of an upstream plugin.
type verdictInputs struct {
	scope VerdictScope
	reads PodKeys
	// ofQueue reports whether verdicts are PerJob and equal for all jobs of a queue.
	ofQueue bool
	// onlyScores reports whether the plugin has no predicate.
	onlyScores bool
	// onTheClock reports whether the plugin refuses nodes by the time of day, or by the age of its measurements.
	onTheClock bool
	// asksServer reports whether the plugin asks a server for its verdicts, one call each.
	asksServer bool
	// ordersTasks is true of a plugin that orders tasks, and by other than their priorities.
	ordersTasks bool
}

// perTaskClass describes a plugin with equal verdicts for all tasks of a class. Of labels and annotations it reads the keys
// only.
func perTaskClass(keys ...string) verdictInputs {
	return verdictInputs{scope: PerTaskClass, reads: SomePodKeys(keys...)}
}

// upstreamInputs describes upstream's plugins. Plugins without predicate or score are PerTaskClass: they have nothing to
// cache. A plugin that is not listed, such as one loaded from a shared object, is Uncached and reads everything.
var upstreamInputs = map[string]verdictInputs{
	"binpack":                perTaskClass(),
	"capacity":               perTaskClass(),
	"cdp":                    perTaskClass(),
	"conformance":            perTaskClass(),
	"drf":                    perTaskClass(),
	"gang":                   perTaskClass(),
	"extender":               {scope: Uncached, asksServer: true}, // its servers receive the whole pod
	"network-topology-aware": {scope: Uncached, reads: SomePodKeys(), onlyScores: true},
	"nodegroup":              {scope: PerJob, reads: SomePodKeys(), ofQueue: true}, // its affinity is the queue's
	"nodeorder":              perTaskClass(),
	"numa-aware":             {scope: Uncached, reads: SomePodKeys(v1beta1.NumaPolicyKey)},
	"overcommit":             perTaskClass(),
	"pdb":                    perTaskClass(),
	"predicates":             perTaskClass(), // allocate finds the tasks that need a call for each
	"priority":               perTaskClass(),
	"proportion":             perTaskClass(),
	"rescheduling":           perTaskClass(),
	"resource-strategy-fit":  perTaskClass(resourcestrategyfit.ResourceStrategyAnnotationKey, resourcestrategyfit.ResourceStrategyWeightAnnotationKey),
	"resourcequota":          perTaskClass(),
	"sla":                    perTaskClass(),
	"task-topology":          {scope: Uncached, reads: SomePodKeys(), onlyScores: true, ordersTasks: true}, // the role is part of the class
	"tdm":                    {scope: PerTaskClass, reads: SomePodKeys(), onTheClock: true},                // the revocable zone is the task's
	"usage":                  {scope: PerTaskClass, reads: SomePodKeys(), onTheClock: true},
}

// AsksServer reports whether the upstream plugin asks a server for its verdicts, one call each.
func AsksServer(plugin string) bool { return upstreamInputs[plugin].asksServer }
