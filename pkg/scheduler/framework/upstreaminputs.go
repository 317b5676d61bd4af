// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	resourcestrategyfit "volcano.sh/volcano/pkg/scheduler/plugins/resource-strategy-fit"
)

// verdictInputs are what the verdicts and scores of a plugin of upstream's depend on.
type verdictInputs struct {
	scope VerdictScope
	reads PodKeys
	// ofQueue is true of verdicts that are PerJob and equal for all jobs of a queue.
	ofQueue bool
	// onlyScores is true of a plugin without a predicate.
	onlyScores bool
	// onTheClock is true of a plugin that refuses nodes by the time of day, or by the age of its measurements.
	onTheClock bool
	// asksServer is true of a plugin that asks a server for its verdicts, one call each.
	asksServer bool
}

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
	"extender":               {scope: Uncached, asksServer: true}, // its servers are sent the whole pod
	"network-topology-aware": {scope: Uncached, reads: SomePodKeys(), onlyScores: true},
	"nodegroup":              {scope: PerJob, reads: SomePodKeys(), ofQueue: true}, // its affinity is the queue's
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
	"task-topology":          {scope: Uncached, reads: SomePodKeys(), onlyScores: true},     // the role is part of the class
	"tdm":                    {scope: PerTaskClass, reads: SomePodKeys(), onTheClock: true}, // the revocable zone is the task's
	"usage":                  {scope: PerTaskClass, reads: SomePodKeys(), onTheClock: true},
}

// AsksServer is true of the plugin of upstream's that asks a server for its verdicts, one call each.
func AsksServer(plugin string) bool { return upstreamInputs[plugin].asksServer }
