// SPDX-License-Identifier: Apache-2.0

// Package allocate is this project's allocate action. It places whole gangs, on one node group where they need one,
// with the verdict of every plugin on every node.
//
// # The packages
//
// Imports, and so calls, go down only:
//
//	allocate  the queue: which job is next, and how its result is handled
//	search    which places are tried for a job or a gang group, and in which orders
//	explain   why a job was not placed
//	trial     places tasks in the session, and takes them back when they are not enough
//	state     data of the run and of the job: its demand, its progress, results of trials
//	memory    data that one session leaves to the next, and the steps that searches may take
//	feasible  which nodes take a task; caches the answers of plugins for equal tasks
//	nodeset   the nodes by number, and sets of them
//	packing   room in numbers; independent of tasks
//
// # What happens to a gang
//
// A scheduler lists the jobs that have tasks to be placed (jobQueues) and gives each its turn, in the plugins' order: a
// state.Attempt. Members that preempt or reclaim pipelined before it in the session, without an eviction, are to be
// placed, too (takeBack).
//
//  1. Where may it be placed? The plugins name node groups for the job (framework.NodeGroups), or it may be placed anywhere. If it did not
//     fit in the last session and its inputs are unchanged (its fingerprint), its explanation is reported again
//     and its turn is over (explain.Reuse).
//  2. In which order are the places tried (search.Solve)? On idle resources before resources being released; whole in one group before
//     spread over several; without the nodes it should avoid before with them (tryInOrder).
//  3. Which groups may hold it? Its demand is counted class by class. Groups whose nodes have room for fewer tasks, by an upper
//     bound or by a proof of package packing, are left out (candidates). The others are tried, best first,
//     and in each the narrower groups before the whole (tryGroup).
//  4. A partSearch places the first tasks, enough for the minimum: by rank if the plugin knows ranks, else class by class,
//     the largest first. If that fails it looks for another way: a packing, other orders, other choices (retryRearranged). Jobs
//     with HyperNodes or sub-groups go through the HyperNodes that plugins allow, sub-job by sub-job (placeInHyperNodes).
//  5. A trial places tasks, each in a statement of its own (trial.Try). A placer asks for the best node (feasible.Finder.Choose),
//     reserves it, and tries the next best where a plugin then refuses. Tasks of one class come as a batch, distributed over the
//     fewest and tightest groups.
//  6. Is it enough? The gang plugin decides: ready, pipelined (ready once resources are released), or not placed. In the last case all of
//     the trial is taken back, the last placement first. If a plugin scores finished placements, all groups are tried, and the trial in
//     the best one is run again, not replayed: volumes and devices that a trial chose were taken back with it.
//  7. A job that is ready is committed (finish): its statements hand the tasks to the cache, which makes a bind transaction of them.
//     It gets another turn for its remaining tasks. A pipelined one holds its place until the session ends. One that was not placed
//     is explained, group by group (explain.RecordMisfit), from the shortfalls of its trials.
//
// # Where to add a rule
//
// A rule about a task and a node is a plugin's predicate or score, whose Signer says for which other tasks the result
// holds; this package needs no change for it. Plugins also decide where a job may be placed and which groups are better
// (PlacementGenerator, PlacementScorer). The search for a placement is changed in package search: another way
// to arrange a gang's tasks is a step of retryRearranged, another order of places is a step of tryInOrder, a cheaper
// reason to leave a group out belongs in candidates (it must never refuse what a trial could place). A new field of
// pods that affects verdicts must be added to the class key of package feasible, whose test fails until it is added.
//
// # Invariants
//
// A trial is kept or taken back whole: between trials the session is unchanged. Nothing depends on the order of maps:
// nodes, groups and HyperNodes are processed by name, ties are broken by name. A result kept from one session to the
// next (package crosssession) equals the one that a new search would find. Every search is bounded in work, not in time, so
// that equal sessions give equal results on any machine.
package allocate
