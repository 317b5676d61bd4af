// SPDX-License-Identifier: Apache-2.0

// Package feasible finds nodes for tasks: which take a task, by the verdict of every plugin, and which of these is best. It asks
// plugins once for tasks that are equal to them, and again only about nodes that changed.
//
// What a Finder is asked:
//
//   - Class: which tasks are equal. A TaskClass has one class key (classkey.go): all of a pod that verdicts may depend on, of
//     labels and annotations only those that plugins read or selectors name (labelkeys.go).
//   - Cache: what is known of nodes for a class. A ClassCache has, per node, the cached plugins' verdict and score until the node
//     changes, and with them the Room of a set of nodes: an upper bound that costs no trial.
//   - Candidates: the nodes of a set that take one more task of the class, ranked, and kept so: after a placement only the nodes
//     that changed are looked at again. That is how a batch of equal tasks is placed in the time of one.
//   - Choose: the best node for a task. The candidates are asked in rank order what cannot be cached, until one takes it; all of
//     them where an uncached plugin scores, too. Accepts asks the same of one node.
//   - RefusalsOf, and Refusals of a ClassCache: why nodes do not take it, in few words and in one order, so that equal sessions
//     tell the same.
//
// Who places a task tells by Placed, who takes it back by TakenBack: required anti-affinity of pods placed in the session keeps
// others away (antiaffinity.go). What holds for one job only is dropped by ForgetJob.
//
// How long a plugin's verdict is kept follows from its framework.VerdictScope, and from the task: layers.go divides the conf's
// plugins into cached, cachedPerJob and uncached, and uncacheable.go has for which tasks the Kubernetes predicates must be asked
// every time. A new reason why a verdict may change with what is placed elsewhere belongs there.
//
// The package knows of nodes and tasks. It does not know of gangs, trials or groups, and changes nothing in the session but
// that pre-predicates run.
package feasible
