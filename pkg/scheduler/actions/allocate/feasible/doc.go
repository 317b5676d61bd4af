// SPDX-License-Identifier: Apache-2.0

// Package feasible finds nodes for tasks: which nodes take a task, by the filter result of every plugin, and which of these
// is best. It calls plugins once for equal tasks, and again only for nodes that changed.
//
// The methods of a Finder:
//
//   - Class: which tasks are equal. A TaskClass has one class key (classkey.go): everything in a pod on which filter results may depend;
//     labels and annotations only if plugins read them or selectors name them (labelkeys.go).
//   - Cache: what is cached for a class. ClassResults have, per node, the filter result and score of the cached plugins until the
//     node changes. From these they count the Room of a set of nodes: how many tasks of the class the set takes at most.
//   - Candidates: the nodes of a set that take one more task of the class, ranked, and kept up to date: after a placement only
//     the changed nodes are checked again. So a batch of equal tasks is placed in the time of one.
//   - Choose: the best node for a task. The candidates are checked in rank order with the uncached plugins, until one takes it;
//     all of them if an uncached plugin scores, too. Accepts checks one node in the same way.
//   - RefusalsOf, and Refusals of ClassResults: why nodes do not take a task, in few words and in a fixed order, so that equal
//     sessions report the same.
//
// Each type holds and calls only types that are below it in this list:
//
//	Finder           the session's classes and caches, and what is forgotten after a job
//	classifier       finds the TaskClass of a task; a TaskClass holds its ClassCache
//	nodeSearch       chooses a node for one task among CandidateNodes
//	ClassCache       the ClassResults of a class, and its CandidateNodes by set
//	CandidateNodes   the ranked nodes of one set
//	ClassResults     the results of cached plugins on single nodes
//	evaluator        calls plugins for one task and node
//
// The caller reports each placement by Placed, and each placement that is undone by TakenBack, because required
// anti-affinity of pods placed in the session keeps other pods away (antiaffinity.go). ForgetJob drops results that apply to one job only.
//
// How long a plugin's filter result is cached follows from its framework.CacheScope, and from the task: layers.go divides
// the conf's plugins into cached, cachedPerJob and uncached, and uncacheable.go finds the tasks that need a call of the
// Kubernetes predicates every time. A new reason why a filter result may change with placements on other nodes
// belongs in uncacheable.go.
//
// The package knows nodes and tasks. It does not know gangs, trials or node groups, and changes nothing in the session
// except by running pre-predicates.
package feasible
