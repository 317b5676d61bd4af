// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"math"
	"slices"
	"strings"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/capacity"
	"volcano.sh/volcano/pkg/scheduler/plugins/proportion"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// The number of task classes that have a cache is limited to maxVerdicts divided by the number of nodes, but is at
// least minCaches. A cache has some 50 bytes for each node, so all caches take some 32 MB. With minCaches, the gangs of
// a session with 10,000 nodes and more do not drop each other's caches all the time.
const (
	maxVerdicts = 640_000
	minCaches   = 64
)

// Finder finds nodes for the tasks of one session.
type Finder struct {
	ssn       *framework.Session
	index     *nodeset.Index
	layering  *layering
	labelKeys *selectorLabelKeys
	// antiAffinity is the anti-affinity of the pods placed in the session.
	antiAffinity *sessionAntiAffinity
	// takenBack counts how often a placed task was taken back.
	takenBack int
	// prePredicates are the plugins, in tiers, whose pre-predicates are called.
	prePredicates []conf.Tier

	facts       *FactCache
	classes     map[string]*TaskClass
	classOfTask map[*api.TaskInfo]*TaskClass
	keyBuffer   []byte
	// caching are the classes that have a cache, at most maxCaches.
	caching   []*TaskClass
	maxCaches int
	// perJob are the CandidateNodes that are valid only for the current job.
	perJob []*CandidateNodes

	// sampled reports whether flags that the user has set leave nodes unchecked (sampling.go).
	sampled bool
	// rareLooks counts the checks of nodes for tasks of rare classes: classes with few tasks (see enough). maxRareLooks
	// bounds it.
	rareLooks   int
	checks      checks
	selection   selection
	overNetwork networkRefusals
}

// New returns the finder of a session, for the nodes of the index. defaults are the default values of upstream's flags:
// if the user has set other values of its sampling flags, some nodes may be left unchecked. facts is the cache of facts
// about tasks that is kept from one session to the next.
func New(ssn *framework.Session, index *nodeset.Index, defaults *options.ServerOption, facts *FactCache) *Finder {
	caching := true
	vcframework.GetArgOfActionFromConf(ssn.Configurations, "allocate").GetBool(&caching, conf.EnablePredicateErrCacheKey)
	f := &Finder{
		ssn:          ssn,
		index:        index,
		layering:     newLayering(ssn, !caching),
		antiAffinity: newSessionAntiAffinity(ssn),
		// The pre-predicates of these two plugins of upstream copy every queue, and only the simulations of preempt and reclaim use
		// the copies. These actions call the pre-predicates themselves.
		prePredicates: ssn.Signers.TiersWithout(ssn.Tiers, proportion.PluginName, capacity.PluginName),
		facts:         facts,
		maxCaches:     max(minCaches, maxVerdicts/max(1, len(index.Nodes))),
		sampled:       samplingWanted(defaults),
		checks:        newChecks(ssn),
	}
	var pending int
	f.labelKeys, pending = newSelectorLabelKeys(ssn, f.layering.plugins)
	f.classOfTask = make(map[*api.TaskInfo]*TaskClass, pending)
	facts.beginSession()
	f.classes = make(map[string]*TaskClass, facts.classes)
	return f
}

// Exclude reports whether required anti-affinity of one of the tasks keeps both tasks off the same node. A node without
// the topology label of the term still takes both.
func (f *Finder) Exclude(l, r *api.TaskInfo) bool {
	return f.antiAffinity.excludes(l, r) || f.antiAffinity.excludes(r, l)
}

// ReadsAnything reports whether a plugin may read any property of a task, so that it may treat tasks of one class differently.
func (f *Finder) ReadsAnything() bool { return f.layering.readsAnything }

// ChecksPorts reports whether nodes are refused because of a pod's host ports.
func (f *Finder) ChecksPorts() bool { return f.checks.ports }

// MaxCaches returns how many classes can have a cache at a time.
func (f *Finder) MaxCaches() int { return f.maxCaches }

// ForgetJob drops results that apply to one job only. It is called when an attempt to place a job or a gang group has
// ended.
func (f *Finder) ForgetJob() {
	for _, c := range f.perJob {
		delete(c.cache.candidates, c.key)
		delete(c.cache.representatives, c.key.job)
	}
	f.perJob = nil
}

// Placed records that the task was placed on the node, so that its required anti-affinity keeps other tasks away.
// TakenBack removes the record.
func (f *Finder) Placed(task *api.TaskInfo, node *api.NodeInfo) { f.antiAffinity.add(task, node) }

// TakenBack removes the anti-affinity terms of a task that was taken back from its node. They then no longer keep other
// tasks away.
func (f *Finder) TakenBack(task *api.TaskInfo) {
	f.antiAffinity.remove(task)
	f.takenBack++
}

// PrePredicate runs the plugins' pre-predicates, except slow ones that only prepare for preemption.
func (f *Finder) PrePredicate(task *api.TaskInfo) (err error) {
	f.ssn.WithTiers(f.prePredicates, func() { err = f.ssn.PrePredicateFn(task) })
	return err
}

// AskCachedAgain calls the plugins with cached filter results again, for this task and node. In that call, some plugins
// choose the devices that they then reserve for the task.
func (f *Finder) AskCachedAgain(task *api.TaskInfo, c *ClassCache, node int32) error {
	return f.predicate(c.layers.cached, task, f.index.Nodes[node])
}

// DecidedByNumbers reports whether only resources and cached filter results decide which nodes take the task:
// DecidedByClass returns true, and no plugin of this project refuses nodes to the task by a predicate of its own.
// chosenBy is the plugin that chose the node group or domain in which the task is to be placed; empty for none.
func (f *Finder) DecidedByNumbers(task *api.TaskInfo, chosenBy string) bool {
	return len(f.OwnFilters(task)) == 0 && f.DecidedByClass(task, chosenBy)
}

// DecidedByClass reports whether only cached filter results decide which nodes take the task. That is so if no plugin
// that may refuse nodes is called for each task, and no pod placed in the session keeps the task away by anti-affinity.
// Also, no plugin may have filter results for the task's job that do not apply to all jobs. Plugin chosenBy does not
// count, because it chose the node group or domain in which the task is to be placed.
func (f *Finder) DecidedByClass(task *api.TaskInfo, chosenBy string) bool {
	if f.layering.readsAnything || f.layering.nothingCached || f.layering.onTheClock {
		return false
	}
	layers := f.Class(task).layers
	return !layers.uncachedFilterResults && !f.perJobBut(layers, task, chosenBy) && len(f.antiAffinity.matching(task)) == 0
}

// OwnFilters returns the plugins of this project that have a predicate of their own for tasks of the task's class.
func (f *Finder) OwnFilters(task *api.TaskInfo) []string { return f.Class(task).layers.ownFilters }

// PerJobBut reports whether a plugin other than the given plugin refuses nodes to the task for a reason that applies to
// some jobs only.
func (f *Finder) PerJobBut(task *api.TaskInfo, plugin string) bool {
	return f.perJobBut(f.Class(task).layers, task, plugin)
}

func (f *Finder) perJobBut(layers *layers, task *api.TaskInfo, plugin string) bool {
	return slices.ContainsFunc(layers.perJobPlugins, func(p string) bool {
		return p != plugin && f.ssn.Signers.JobKey(p, f.ssn.Jobs[task.Job]) != ""
	})
}

// predicate calls the predicates of the plugins in layer, as upstream's allocate does. A layer has the plugins whose
// results are cached for equally long.
func (f *Finder) predicate(layer []conf.Tier, task *api.TaskInfo, node *api.NodeInfo) (err error) {
	if len(layer) == 0 {
		return nil
	}
	all := f.ssn.Tiers
	f.ssn.Tiers = layer
	defer func() { f.ssn.Tiers = all }()
	return f.oneFilterResult(task, node, f.ssn.PredicateForAllocateAction(task, node))
}

// nodeScore returns the sum of the scores that the plugins in layer give to the node without comparing it with other
// nodes. The score of a plugin that fails counts as 0, and the error is logged.
func (f *Finder) nodeScore(layer []conf.Tier, task *api.TaskInfo, node *api.NodeInfo) (score float64) {
	if len(layer) == 0 {
		return 0
	}
	f.ssn.WithTiers(layer, func() {
		var err error
		if score, err = f.ssn.NodeOrderFn(task, node); err != nil {
			klog.ErrorS(err, "Scoring a node failed, using score 0", "pod", klog.KObj(task.Pod), "node", node.Name)
			score = 0
		}
	})
	return score
}

// uncachedFilterResult returns the filter result for the task itself on a node that the cached filter results accept.
// It checks the anti-affinity of pods placed in the session, and calls the uncached plugins.
func (f *Finder) uncachedFilterResult(task *api.TaskInfo, c *ClassCache, node int32) error {
	if err := f.antiAffinity.filterResult(task, f.index.Nodes[node]); err != nil {
		return err
	}
	return f.predicate(c.layers.uncached, task, f.index.Nodes[node])
}

// steady rounds a sum of scores to the sixth decimal. Upstream adds the scores of plugins in the order of a map, and
// cached scores are added in another order than new scores. Without rounding, ties would be broken by the last bit of a
// float.
func steady(score float64) float64 { return math.Round(score*1e6) / 1e6 }

// Candidates returns the nodes of the set in where that take tasks of the task's class c now, by cached filter results.
func (f *Finder) Candidates(task *api.TaskInfo, c *ClassCache, where Where) *CandidateNodes {
	perJob, jobKey := c.layers.forJob(f.ssn, f.ssn.Jobs[task.Job], where.ChosenBy)
	key := candidatesKey{set: where.Set, job: jobKey}
	nodes, ok := c.candidates[key]
	if !ok {
		nodes = newCandidateNodes(f, c, key)
		if len(perJob) > 0 {
			nodes.perJob, nodes.representative = perJob, c.representativeOf(task, jobKey)
		}
		c.candidates[key] = nodes
		if strings.Contains(key.job, string(task.Job)) {
			f.perJob = append(f.perJob, nodes)
		}
	}
	nodes.update()
	return nodes
}
