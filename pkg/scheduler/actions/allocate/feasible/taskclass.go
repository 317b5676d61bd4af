// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"hash/maphash"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// TaskClass is a set of tasks with one class key. The tasks are equal to every plugin except for their identity and
// their job, and the same plugins are called for each of them. Tasks of one class, and no others, have the same pointer
// to a TaskClass. Members of one job or role are not necessarily equal
// (https://github.com/volcano-sh/volcano/issues/3527 and 3666).
type TaskClass struct {
	number      int
	fingerprint uint64
	layers      *layers
	expected    int
	// cache is nil before the first use, and after it was dropped to save memory.
	cache *ClassCache
}

// Class returns the task's class.
func (f *Finder) Class(task *api.TaskInfo) *TaskClass {
	if class, ok := f.classOfTask[task]; ok {
		return class
	}
	return f.classify(task)
}

// classify finds the task's class by its class key.
func (f *Finder) classify(task *api.TaskInfo) *TaskClass {
	facts := f.facts.factsOf(task)
	layers := f.layering.of(task, facts.plain) // the layers may also depend on the task's identity
	f.keyBuffer = append(appendClassKey(f.keyBuffer[:0], task, f.labelKeys, claimKeys{f.ssn.Signers.VolumeKey, f.ssn.Signers.ClaimKey}, facts), layers.signature...)
	class, ok := f.classes[string(f.keyBuffer)]
	if !ok {
		class = &TaskClass{number: len(f.classes), fingerprint: maphash.Bytes(f.facts.Seed, f.keyBuffer), layers: layers}
		f.classes[string(f.keyBuffer)] = class
		f.facts.classes = len(f.classes)
	}
	f.classOfTask[task] = class
	return class
}

// Expect records a task that is to be placed in the session. It is called once for each task.
func (f *Finder) Expect(task *api.TaskInfo) { f.classify(task).expected++ }

// Number identifies a class in a session.
func (c *TaskClass) Number() int { return c.number }

// Fingerprint identifies a class across sessions.
func (c *TaskClass) Fingerprint() uint64 { return c.fingerprint }

// OneByOne reports whether a plugin is called for every task of the class.
func (c *TaskClass) OneByOne() bool { return c.layers.oneByOne }

// Cache returns the class's cache; nil when it has none.
func (c *TaskClass) Cache() *ClassCache { return c.cache }

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
		class.cache = newClassCache(f, class, task)
		f.caching = append(f.caching, class)
	}
	return class.cache, nil
}
