// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	vcapi "volcano.sh/volcano/pkg/scheduler/api"
	vcconf "volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/plugins/nodeorder"
	"volcano.sh/volcano/pkg/scheduler/plugins/predicates"
	resourcestrategyfit "volcano.sh/volcano/pkg/scheduler/plugins/resource-strategy-fit"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// layer is a lifetime in the cache: it says for how long a plugin's filter results and scores for a task may be reused.
type layer = byte

const (
	cached       layer = 'c' // cached for the task's class and a node, until the node changes
	cachedPerJob layer = 'j' // cached for the task's class, the job's key and a node, until the node changes
	uncached     layer = 'u' // never
	scoreCached  layer = 's' // the score is cached as in layer cached, the filter result is never cached
	skipped      layer = '-' // not called: the plugin does not affect the task
)

// layers are the conf's plugins for a class of tasks, divided by how long their filter results are cached. Each layer has the
// conf's tiers with only the plugins of that layer, in conf order.
type layers struct {
	// With nothingCached, uncached has all plugins. The other layers are then used only to choose node groups and to make
	// packing plans, so that the same groups are tried as with caching.
	cached, cachedPerJob, uncached []vcconf.Tier
	// nothingCached reports whether the conf disables caching (layering.nothingCached).
	nothingCached bool
	// oneByOne reports whether the results of some plugin cannot be cached for these tasks, regardless of whether the
	// conf disables caching.
	oneByOne bool
	// cachedScores has the plugins of the field cached without the predicates plugin. It is used for pods without
	// claims: the predicates plugin scores nodes only by a pod's claims, and is slow to find that a pod has none.
	cachedScores []vcconf.Tier
	// uncachedScores reports whether the field uncached has plugins that may affect which feasible node is best. The
	// predicates plugin is not counted here, because it scores nodes only for some pods (volumesScored).
	uncachedScores bool
	// uncachedFilterResults reports whether the field uncached has plugins that may refuse a node.
	uncachedFilterResults bool
	// overNetwork reports whether the field uncached has a plugin that makes a network call for each node.
	overNetwork bool
	// ownFilters are the plugins of this project with a predicate of their own for the tasks of the class.
	ownFilters []string
	// perJobPlugins are the plugins whose results apply to some jobs only (cachedPerJob).
	perJobPlugins []string
	// signature identifies the layers: it has one letter for the layer of each plugin in layering.plugins, in conf
	// order.
	signature string
}

// layering finds the layers of a task, which say how long each plugin's results for the task are cached. Tasks with
// equal layers share one value of type layers.
type layering struct {
	ssn *framework.Session
	// nothingCached reports whether every plugin is called for every task. The argument predicateErrorCacheEnable:
	// false of action allocate requests that.
	nothingCached bool
	// plugins are the plugins that filter nodes, score nodes or choose among scored nodes (takesPart), in conf order.
	// scopes are the cache scopes of their filter results, for plugins whose scope is the same for all tasks.
	plugins []string
	scopes  []fixedScope
	// readsAnything reports whether one of the plugins may read any property of a task.
	readsAnything bool
	// onTheClock reports whether the filter results of one of the plugins depend on the time of day, or on the age of
	// measurements.
	onTheClock bool
	// deviceClasses are the names of device classes, by extended resource. Pods that request such a resource get devices
	// of the class without a claim.
	deviceClasses map[v1.ResourceName]string
	reserves      *reserves
	known         map[string]*layers
	buffer        []byte
}

// fixedScope says to which other tasks a plugin's filter results apply (framework.CacheScope). fixed is false if the
// scope depends on the task.
type fixedScope struct {
	framework.CacheScope
	fixed bool
}

func newLayering(ssn *framework.Session, nothingCached bool) *layering {
	l := &layering{ssn: ssn, nothingCached: nothingCached, deviceClasses: deviceClassesByResource(ssn), reserves: newReserves(ssn), known: map[string]*layers{}}
	for _, tier := range ssn.Tiers {
		for _, option := range tier.Plugins {
			if !takesPart(option) {
				continue
			}
			scope, fixed := ssn.Signers.FixedScope(option.Name)
			l.plugins, l.scopes = append(l.plugins, option.Name), append(l.scopes, fixedScope{scope, fixed})
			l.readsAnything = l.readsAnything || ssn.Signers.ReadsAnything(option.Name)
			l.onTheClock = l.onTheClock || ssn.Signers.TimeDependent(option.Name)
		}
	}
	return l
}

// takesPart reports whether the plugin takes part in predicates, scores or the choice among scored nodes.
func takesPart(option vcconf.PluginOption) bool {
	on := func(b *bool) bool { return b != nil && *b }
	return on(option.EnabledPredicate) || on(option.EnabledNodeOrder) || on(option.EnabledBestNode)
}

// The method of returns the layers of the task: how long each plugin's results for it are cached. plain reports whether
// the pod has no affinity, topology spread, claims, or volumes that exist on some nodes only (taskFacts.plain).
func (l *layering) of(task *vcapi.TaskInfo, plain bool) *layers {
	dependsOnOthers := !plain && dependsOnOtherNodes(l.ssn, task.Pod) || asksFor(task.Pod, l.deviceClasses)
	preferring := !plain && prefersByOtherNodes(task.Pod)
	l.buffer = l.buffer[:0]
	for i, plugin := range l.plugins {
		scope := l.scopes[i].CacheScope
		if !l.scopes[i].fixed {
			scope = l.ssn.Signers.Scope(plugin, task)
		}
		of := cached
		switch {
		case scope == framework.Unaffected:
			of = skipped
		case scope == framework.Uncached, dependsOnOthers && plugin == predicates.PluginName,
			preferring && plugin == nodeorder.PluginName && !l.ssn.Signers.Signs(plugin):
			of = uncached
		case scope == framework.PerJob:
			of = cachedPerJob
		case plugin == resourcestrategyfit.PluginName && l.reserves.shrinkFor(task):
			of = scoreCached
		}
		l.buffer = append(l.buffer, of)
	}
	if found, ok := l.known[string(l.buffer)]; ok {
		return found
	}
	made := l.make(string(l.buffer))
	l.known[made.signature] = made
	return made
}

// The method make builds the layers from the signature, which has one letter for the layer of each plugin.
func (l *layering) make(signature string) *layers {
	made := &layers{signature: signature, nothingCached: l.nothingCached, oneByOne: strings.ContainsAny(signature, string([]layer{uncached, scoreCached}))}
	for _, tier := range l.ssn.Tiers {
		var ofCached, ofScores, ofPerJob, ofUncached vcconf.Tier
		for _, option := range slices.DeleteFunc(slices.Clone(tier.Plugins), func(o vcconf.PluginOption) bool { return !takesPart(o) }) {
			layer := signature[0]
			signature = signature[1:]
			if layer == skipped {
				continue
			}
			if layer == cached && l.ssn.Signers.HasOwnFilter(option.Name) {
				made.ownFilters = append(made.ownFilters, option.Name)
			}
			if layer == scoreCached && !l.nothingCached {
				filter := option
				filter.EnabledNodeOrder, filter.EnabledBestNode = nil, nil
				ofUncached.Plugins = append(ofUncached.Plugins, filter)
				made.uncachedFilterResults = true
				option.EnabledPredicate = nil
				layer = cached
			}
			if layer == uncached || l.nothingCached {
				ofUncached.Plugins = append(ofUncached.Plugins, option)
				l.noteUncached(made, option.Name)
			}
			switch layer {
			case cachedPerJob:
				ofPerJob.Plugins = append(ofPerJob.Plugins, option)
				made.perJobPlugins = append(made.perJobPlugins, option.Name)
			case cached:
				ofCached.Plugins = append(ofCached.Plugins, option)
				if option.Name != predicates.PluginName {
					ofScores.Plugins = append(ofScores.Plugins, option)
				}
			}
		}
		made.cached, made.cachedScores = appendTier(made.cached, ofCached), appendTier(made.cachedScores, ofScores)
		made.cachedPerJob, made.uncached = appendTier(made.cachedPerJob, ofPerJob), appendTier(made.uncached, ofUncached)
	}
	return made
}

// noteUncached records in made whether the uncached plugin scores nodes, filters nodes or makes network calls.
func (l *layering) noteUncached(made *layers, plugin string) {
	made.uncachedScores = made.uncachedScores || plugin != predicates.PluginName && l.ssn.Signers.HasScore(plugin)
	made.uncachedFilterResults = made.uncachedFilterResults || l.ssn.Signers.HasFilter(plugin)
	made.overNetwork = made.overNetwork || framework.CallsServer(plugin)
}

func appendTier(tiers []vcconf.Tier, tier vcconf.Tier) []vcconf.Tier {
	if len(tier.Plugins) == 0 {
		return tiers
	}
	return append(tiers, tier)
}

// forJob returns the layer cachedPerJob without the plugin named by without. It also returns a key of all properties of the
// job on which the remaining plugins' filter results depend.
func (l *layers) forJob(ssn *framework.Session, job *vcapi.JobInfo, without string) ([]vcconf.Tier, string) {
	if len(l.perJobPlugins) == 0 {
		return nil, ""
	}
	var keys []string
	for _, plugin := range l.perJobPlugins {
		if plugin != without {
			keys = append(keys, ssn.Signers.JobKey(plugin, job))
		}
	}
	if len(keys) == len(l.perJobPlugins) {
		return l.cachedPerJob, strings.Join(keys, "\x00")
	}
	var tiers []vcconf.Tier
	for _, tier := range l.cachedPerJob {
		left := slices.DeleteFunc(slices.Clone(tier.Plugins), func(o vcconf.PluginOption) bool { return o.Name == without })
		tiers = appendTier(tiers, vcconf.Tier{Plugins: left})
	}
	return tiers, strings.Join(append(keys, "without "+without), "\x00")
}
