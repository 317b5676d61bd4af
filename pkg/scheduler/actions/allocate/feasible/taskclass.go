// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"hash/maphash"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
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

// Number identifies a class in a session.
func (c *TaskClass) Number() int { return c.number }

// Fingerprint identifies a class across sessions.
func (c *TaskClass) Fingerprint() uint64 { return c.fingerprint }

// OneByOne reports whether a plugin is called for every task of the class.
func (c *TaskClass) OneByOne() bool { return c.layers.oneByOne }

// Cache returns the class's cache; nil when it has none.
func (c *TaskClass) Cache() *ClassCache { return c.cache }

// classifier finds the classes of the session's tasks.
type classifier struct {
	facts    *FactCache
	layering *layering
	// labelKeys is nil before the first task is classified, because collecting the keys reads all pending pods.
	labelKeys *selectorLabelKeys
	claimKeys claimKeys
	// classes are the classes found so far, by class key.
	classes     map[string]*TaskClass
	classOfTask map[*api.TaskInfo]*TaskClass
	keyBuffer   []byte
}

func newClassifier(ssn *framework.Session, nothingCached bool, facts *FactCache) *classifier {
	c := &classifier{facts: facts, layering: newLayering(ssn, nothingCached), claimKeys: claimKeys{ssn.Signers.VolumeKey, ssn.Signers.ClaimKey}}
	facts.beginSession()
	c.classes = make(map[string]*TaskClass, facts.classes)
	return c
}

// classOf returns the task's class.
func (c *classifier) classOf(task *api.TaskInfo) *TaskClass {
	if class, ok := c.classOfTask[task]; ok {
		return class
	}
	return c.classify(task)
}

// classify finds the task's class by its class key.
func (c *classifier) classify(task *api.TaskInfo) *TaskClass {
	if c.labelKeys == nil {
		var pending int
		c.labelKeys, pending = newSelectorLabelKeys(c.layering.ssn, c.layering.plugins)
		c.classOfTask = make(map[*api.TaskInfo]*TaskClass, pending)
	}
	facts := c.facts.factsOf(task)
	layers := c.layering.of(task, facts.plain) // the layers may also depend on the task's identity
	c.keyBuffer = append(appendClassKey(c.keyBuffer[:0], task, c.labelKeys, c.claimKeys, facts), layers.signature...)
	class, ok := c.classes[string(c.keyBuffer)]
	if !ok {
		class = &TaskClass{number: len(c.classes), fingerprint: maphash.Bytes(c.facts.Seed, c.keyBuffer), layers: layers}
		c.classes[string(c.keyBuffer)] = class
		c.facts.classes = len(c.classes)
	}
	c.classOfTask[task] = class
	return class
}
