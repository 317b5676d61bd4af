// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// ReadsAnything reports whether a plugin may read any property of a task, so that it may treat tasks of one class differently.
func (f *Finder) ReadsAnything() bool { return f.classifier.layering.readsAnything }

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
	if l := f.classifier.layering; l.readsAnything || l.nothingCached || l.onTheClock {
		return false
	}
	return !f.Class(task).layers.uncachedFilterResults && !f.PerJobBut(task, chosenBy) && len(f.evaluator.antiAffinity.matching(task)) == 0
}

// OwnFilters returns the plugins of this project that have a predicate of their own for tasks of the task's class.
func (f *Finder) OwnFilters(task *api.TaskInfo) []string { return f.Class(task).layers.ownFilters }

// PerJobBut reports whether a plugin other than the given plugin refuses nodes to the task for a reason that applies to
// some jobs only.
func (f *Finder) PerJobBut(task *api.TaskInfo, plugin string) bool {
	ssn := f.evaluator.ssn
	return slices.ContainsFunc(f.Class(task).layers.perJobPlugins, func(p string) bool {
		return p != plugin && ssn.Signers.JobKey(p, ssn.Jobs[task.Job]) != ""
	})
}
