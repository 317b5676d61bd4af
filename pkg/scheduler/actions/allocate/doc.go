// SPDX-License-Identifier: Apache-2.0

// Package allocate is this project's allocate action. It places whole gangs, on one node group where they need one, with
// the verdict of every plugin on every node.
//
// # The packages
//
// Imports, and so calls, go down only:
//
//	allocate  the queue: which job has its turn next, and what becomes of its result
//	search    which places are tried for a job or a unit of gangs, and in which orders
//	explain   why a job was not placed
//	trial     tasks are placed in the session, and taken back when they are not enough
//	state     what is known of the run and of the job: its demand, its progress, what trials found out
//	memory    what one session leaves to the next, and the steps that searches may take
//	feasible  which nodes take a task; it keeps what plugins answered for equal tasks
//	nodeset   the nodes by number, and sets of them
//	packing   room in numbers; it knows nothing of tasks
//
// # What happens to a gang
//
// A scheduler lists the jobs that have tasks to be placed (jobQueues) and gives each its turn, in the plugins' order: a state.Attempt.
// Members that preempt or reclaim pipelined before it in the session, without an eviction, are to be placed, too (takeBack).
//
//  1. Where may it lie? The plugins name node groups for the job (framework.NodeGroups), or it may lie anywhere. If it did not
//     fit in the last session and nothing that decides on it has changed (its fingerprint), its explanation is reported again
//     and its turn is over (explain.Reuse).
//  2. In which order is it tried (search.Solve)? On idle resources before resources being released; whole in one group before
//     spread over several; without the nodes it should avoid before with them (tryInOrder).
//  3. Which groups may hold it? Its demand is counted class by class. Groups whose nodes have room for fewer tasks, by an upper
//     bound or by a proof of package packing, are left out (candidates). The others are tried, best first,
//     and in each the narrower groups before the whole (tryGroup).
//  4. A partSearch has the first tasks, enough for the minimum, placed by rank where the plugin knows ranks, else class by class,
//     the largest first, and if that fails looks for another way: a packing, other orders, other choices (retryRearranged). Jobs
//     with HyperNodes or sub-groups go through the HyperNodes that plugins allow, sub-job by sub-job (placeInHyperNodes).
//  5. A trial places tasks, each in a statement of its own (trial.Try). A placer asks for the best node (feasible.Finder.Choose),
//     reserves it, and tries the next best where a plugin then refuses. Tasks of one class come as a batch, distributed over the
//     fewest and tightest groups.
//  6. Is it enough? The gang plugin decides: ready, pipelined (ready once resources are released), or not placed, and then all of
//     the trial is taken back, the last first. Where a plugin scores finished placements all groups are tried and
//     the best one is tried again, not replayed: volumes and devices that a trial chose were taken back with it.
//  7. A job that is ready is committed (finish): its statements hand the tasks to the cache, which makes a bind transaction of them.
//     It gets another turn for its remaining tasks. A pipelined one holds its place until the session ends. One that was not placed
//     is explained, group by group (explain.RecordMisfit), from the shortfalls of its trials.
//
// # Where to add a rule
//
// A rule about a task and a node is a plugin's predicate or score, whose Signer says how long it holds; nothing here
// needs to know of it. Plugins also decide where a job may lie and which groups are better (PlacementGenerator,
// PlacementScorer, Avoider). The search for a placement is changed here, in package search: another way to arrange a gang's tasks is a step of
// retryRearranged, another order of places one of tryInOrder, a cheaper reason to leave a group out one of
// candidates (it must never refuse what a trial could place). A new field of pods on which verdicts depend belongs into
// the class key of package feasible, whose test fails until it is added.
//
// # Invariants
//
// A trial is kept or taken back whole: between trials the session is unchanged. Nothing depends on the order of maps: nodes,
// groups and HyperNodes are processed by name, ties are broken by name. Results kept from one session to the next
// (package memory) would be found again. Every search has a bound, in work and not in time, so that equal
// sessions have equal answers on any machine.
package allocate
