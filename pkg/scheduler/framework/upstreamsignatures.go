// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	resourcestrategyfit "volcano.sh/volcano/pkg/scheduler/plugins/resource-strategy-fit"
)

// upstreamSignature describes on which inputs the filter results and scores of an upstream plugin depend.
type upstreamSignature struct {
	scope CacheScope
	reads PodKeys
	// ofQueue reports whether the filter results are the same for all jobs of a queue; the field scope is then PerJob.
	ofQueue bool
	// onlyScores reports whether the plugin has no predicate.
	onlyScores bool
	// timeDependent reports whether the plugin's refusals depend on the time of day, or on the age of measurements that
	// the plugin reads.
	timeDependent bool
	// callsServer reports whether the plugin calls a server for each filter result.
	callsServer bool
	// ordersTasks reports whether the plugin orders tasks by anything except their priorities.
	ordersTasks bool
	// ordersJobs reports whether the plugin orders jobs.
	ordersJobs bool
}

// perTaskClass describes how results of a plugin can be cached if they are the same for all tasks of a class. keys are the
// only labels and annotations of pods that the plugin reads.
func perTaskClass(keys ...string) upstreamSignature {
	return upstreamSignature{scope: PerTaskClass, reads: SomePodKeys(keys...)}
}

// upstreamSignatures says, for each plugin of upstream, which results may be cached. A plugin that has neither a
// predicate nor scores has no results. It is listed as PerTaskClass, so that it does not restrict the caching of other
// results. A plugin that is not listed, such as a plugin loaded from a shared object, is Uncached: its results may
// depend on anything.
var upstreamSignatures = map[string]upstreamSignature{
	"binpack":                perTaskClass(),
	"capacity":               perTaskClass(),
	"cdp":                    perTaskClass(),
	"conformance":            perTaskClass(),
	"drf":                    {scope: PerTaskClass, reads: SomePodKeys(), ordersJobs: true},
	"gang":                   {scope: PerTaskClass, reads: SomePodKeys(), ordersJobs: true},
	"extender":               {scope: Uncached, callsServer: true}, // the plugin sends the whole pod to its servers
	"network-topology-aware": {scope: Uncached, reads: SomePodKeys(), onlyScores: true},
	"nodegroup":              {scope: PerJob, reads: SomePodKeys(), ofQueue: true}, // the affinity belongs to the queue
	"nodeorder":              perTaskClass(),
	"numa-aware":             {scope: Uncached, reads: SomePodKeys(v1beta1.NumaPolicyKey)},
	"overcommit":             perTaskClass(),
	"pdb":                    perTaskClass(),
	"predicates":             perTaskClass(), // allocate itself detects the tasks for which it must call the plugin on each node
	"priority":               {scope: PerTaskClass, reads: SomePodKeys(), ordersJobs: true},
	"proportion":             perTaskClass(),
	"rescheduling":           perTaskClass(),
	"resource-strategy-fit":  perTaskClass(resourcestrategyfit.ResourceStrategyAnnotationKey, resourcestrategyfit.ResourceStrategyWeightAnnotationKey),
	"resourcequota":          perTaskClass(),
	"sla":                    {scope: PerTaskClass, reads: SomePodKeys(), ordersJobs: true},
	"task-topology":          {scope: Uncached, reads: SomePodKeys(), onlyScores: true, ordersTasks: true},       // reads only the pod's role, which is part of the task class
	"tdm":                    {scope: PerTaskClass, reads: SomePodKeys(), timeDependent: true, ordersJobs: true}, // the revocable zone is a property of the task
	"usage":                  {scope: PerTaskClass, reads: SomePodKeys(), timeDependent: true},
}

// CallsServer reports whether the upstream plugin calls a server for each filter result.
func CallsServer(plugin string) bool { return upstreamSignatures[plugin].callsServer }
