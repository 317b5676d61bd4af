// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
)

// ClassCache holds what is cached for the tasks of a class: results on single nodes, and candidates in sets of nodes.
type ClassCache struct {
	// Results are the results of the cached plugins on single nodes.
	Results *ClassResults
	// expected is how many tasks of the class the session is to place; 0 when unknown.
	expected   int
	candidates map[candidatesKey]*CandidateNodes
	// representatives are the tasks that are passed to plugins whose results apply to some jobs only (PerJob), by the
	// key of the jobs that share these results.
	representatives map[string]*representative
}

// candidatesKey identifies the CandidateNodes of a class for a set of nodes, and for the jobs that share the results of
// plugins with scope framework.PerJob.
type candidatesKey struct {
	set *nodeset.Set
	// job is the key of the jobs that share the results of plugins with scope framework.PerJob, whose results apply to
	// some jobs only. It is empty if all results apply to all jobs.
	job string
}

// newClassCache returns an empty cache of the class. The task represents the class; its pre-predicate must have run.
func newClassCache(e *evaluator, class *TaskClass, task *api.TaskInfo) *ClassCache {
	return &ClassCache{
		Results:         newClassResults(e, class.layers, task),
		expected:        class.expected,
		candidates:      map[candidatesKey]*CandidateNodes{},
		representatives: map[string]*representative{},
	}
}

// representativeOf returns the representative of the task's class for jobs with this key: jobs that share the results
// of plugins with scope PerJob. On the first call for the key, the task becomes the representative.
func (c *ClassCache) representativeOf(task *api.TaskInfo, jobKey string) *representative {
	if r, ok := c.representatives[jobKey]; ok {
		return r
	}
	r := &representative{task: task}
	if task != c.Results.task {
		r.err = c.Results.evaluator.prePredicate(task)
	}
	c.representatives[jobKey] = r
	return r
}

// forget drops the candidates with the key, and the representative for its jobs.
func (c *ClassCache) forget(key candidatesKey) {
	delete(c.candidates, key)
	delete(c.representatives, key.job)
}
