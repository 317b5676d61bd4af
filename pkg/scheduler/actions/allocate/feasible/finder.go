// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"strings"

	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

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
	evaluator  *evaluator
	classifier *classifier
	sampler    sampler
	// caching are the classes that have a cache, at most maxCaches.
	caching   []*TaskClass
	maxCaches int
	// perJob are the candidates that are valid only for the current job.
	perJob []jobCandidates
}

// jobCandidates are candidates in a cache that are valid for one job only.
type jobCandidates struct {
	cache *ClassCache
	key   candidatesKey
}

// Where says in which set of nodes a node is searched for a task.
type Where struct {
	Set *nodeset.Set
	// ChosenBy is the plugin that named the set's node group, if any. If its filter result applies to some jobs only
	// (PerJob), the result is not requested, because the plugin accepts all nodes of a group that it names.
	ChosenBy string
}

// New returns the finder of a session, for the nodes of the index. defaults are the default values of upstream's flags:
// if the user has set other values of its sampling flags, some nodes may be left unchecked. facts is the cache of facts
// about tasks that is kept from one session to the next.
func New(ssn *framework.Session, index *nodeset.Index, defaults *options.ServerOption, facts *FactCache) *Finder {
	uncached := vcframework.GetArgOfActionFromConf(ssn.Configurations, "allocate")[conf.EnablePredicateErrCacheKey] == false
	return &Finder{
		evaluator:  newEvaluator(ssn, index),
		classifier: newClassifier(ssn, uncached, facts),
		sampler:    sampler{all: index.All, byFlags: samplingWanted(defaults)},
		maxCaches:  max(minCaches, maxVerdicts/max(1, len(index.Nodes))),
	}
}

// Class returns the task's class.
func (f *Finder) Class(task *api.TaskInfo) *TaskClass { return f.classifier.classOf(task) }

// Expect records a task that is to be placed in the session. It is called once for each task.
func (f *Finder) Expect(task *api.TaskInfo) { f.classifier.classify(task).expected++ }

// MaxCaches returns how many classes can have a cache at a time.
func (f *Finder) MaxCaches() int { return f.maxCaches }

// Cache returns the cache of the task's class. If it creates the cache, the task represents the class in it. An error
// is the error of this task's pre-predicate.
func (f *Finder) Cache(task *api.TaskInfo) (*ClassCache, error) {
	class := f.Class(task)
	if class.cache == nil {
		if err := f.PrePredicate(task); err != nil {
			return nil, err
		}
		if len(f.caching) >= f.maxCaches {
			for _, old := range f.caching {
				old.cache = nil
			}
			f.caching = f.caching[:0]
		}
		class.cache = newClassCache(f.evaluator, class, task)
		f.caching = append(f.caching, class)
	}
	return class.cache, nil
}

// Candidates returns the nodes of the set in where that take tasks of the task's class now, by cached filter results.
// c is the cache of the class.
func (f *Finder) Candidates(task *api.TaskInfo, c *ClassCache, where Where) *CandidateNodes {
	ssn := f.evaluator.ssn
	layer, jobKey := c.Results.layers.forJob(ssn, ssn.Jobs[task.Job], where.ChosenBy)
	key := candidatesKey{set: where.Set, job: jobKey}
	nodes, ok := c.candidates[key]
	if !ok {
		var perJob perJobPlugins
		if len(layer) > 0 {
			perJob = perJobPlugins{layer, c.representativeOf(task, jobKey)}
		}
		nodes = newCandidateNodes(c.Results, where.Set, perJob, f.sampler.enough(where.Set, c.Results, c.expected))
		c.candidates[key] = nodes
		if strings.Contains(jobKey, string(task.Job)) {
			f.perJob = append(f.perJob, jobCandidates{c, key})
		}
	}
	nodes.update()
	return nodes
}

// ForgetJob drops results that apply to one job only. It is called when an attempt to place a job or a gang group has
// ended.
func (f *Finder) ForgetJob() {
	for _, of := range f.perJob {
		of.cache.forget(of.key)
	}
	f.perJob = nil
}

// Choose returns the best node for the task; c is the cache of its class. Nodes in skip are left out. With idleOnly, the
// node must have room on idle resources. If there is no such node, Choose returns false and the filter results. The
// task's pre-predicate must have run.
func (f *Finder) Choose(task *api.TaskInfo, c *ClassCache, where Where, idleOnly bool, skip map[int32]bool) (Choice, bool, *api.FitErrors) {
	return nodeSearch{task: task, among: f.Candidates(task, c, where), idleOnly: idleOnly, skip: skip}.choose()
}

// Accepts returns the node as a choice for the task; false if a filter result refuses the node. c is the cache of the
// task's class. With idleOnly, the node must have room on idle resources.
func (f *Finder) Accepts(task *api.TaskInfo, c *ClassCache, where Where, node int32, idleOnly bool) (Choice, bool) {
	return nodeSearch{task: task, among: f.Candidates(task, c, where), idleOnly: idleOnly}.accepts(node)
}

// PrePredicate runs the plugins' pre-predicates, except slow ones that only prepare for preemption.
func (f *Finder) PrePredicate(task *api.TaskInfo) error { return f.evaluator.prePredicate(task) }

// AskCachedAgain calls the plugins with cached filter results again, for this task and node. In that call, some plugins
// choose the devices that they then reserve for the task.
func (f *Finder) AskCachedAgain(task *api.TaskInfo, c *ClassCache, node int32) error {
	return f.evaluator.predicate(c.Results.layers.cached, task, f.evaluator.index.Nodes[node])
}

// Placed records that the task was placed on the node, so that its required anti-affinity keeps other tasks away.
// TakenBack removes the record.
func (f *Finder) Placed(task *api.TaskInfo, node *api.NodeInfo) {
	f.evaluator.antiAffinity.add(task, node)
}

// TakenBack removes the anti-affinity terms of a task that was taken back from its node, or evicted. They then no longer
// keep other tasks away.
func (f *Finder) TakenBack(task *api.TaskInfo) { f.evaluator.antiAffinity.remove(task) }

// Exclude reports whether required anti-affinity of one of the tasks keeps both tasks off the same node. A node without
// the topology label of the term still takes both.
func (f *Finder) Exclude(l, r *api.TaskInfo) bool {
	return f.evaluator.antiAffinity.excludes(l, r) || f.evaluator.antiAffinity.excludes(r, l)
}

// ChecksPorts reports whether nodes are refused because of a pod's host ports.
func (f *Finder) ChecksPorts() bool { return f.evaluator.checks.ports }

// PodSlots returns how many more pods the node takes. Pods that were evicted in the session do not count.
func (f *Finder) PodSlots(node *api.NodeInfo) int { return f.evaluator.podSlots(node) }

// RefusalsOf counts the nodes by the reason that stops the task in the current state of a trial. member reports whether a
// node has members of the task's gang. RefusalsOf returns nil if no nodes were checked yet for tasks of the task's class.
func (f *Finder) RefusalsOf(task *api.TaskInfo, where Where, member func(node int32) bool) *Refusals {
	c := f.Class(task).cache
	if c == nil {
		return nil
	}
	return f.Candidates(task, c, where).refusals(task, member)
}
