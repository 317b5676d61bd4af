// SPDX-License-Identifier: Apache-2.0

// Package allocate is this project's allocate action. It places gangs as a whole, in one node group if they need one,
// and lets every plugin filter every node.
//
// # The packages
//
// In this text, a place is where a job may be placed: a node group, a HyperNode, or all nodes. Each package imports, and
// so calls, only packages that are below it in this list:
//
//	allocate      the queue: which job is next, and how its result is handled
//	search        in which places a job or a gang group is tried, and in which orders
//	explain       why a job was not placed
//	trial         places tasks in the session, and takes them back if they are not enough
//	state         data on the run and on a job: its demand, its progress, results of trials
//	crosssession  data that one session leaves to the next, and the steps that searches may take
//	feasible      which nodes take a task; caches the answers of plugins for equal tasks
//	nodeset       the nodes by number, and sets of them
//	packing       finds room by arithmetic on resources; knows no plugins
//
// # What happens to a gang
//
// A scheduler lists the jobs that have tasks to be placed (jobQueues) and makes an attempt to place each (state.Attempt), in
// the plugins' order. If action preempt or reclaim has pipelined members earlier in this session without evicting a pod
// for them, allocate takes them back and places them again (takeBack).
//
//  1. Where may the job be placed? The plugins name node groups for it (framework.NodeGroups), or it may be placed on any node. If the job
//     did not fit in the last session, and everything on which this result depends is unchanged (its fingerprint), the
//     explanation is reported again and the attempt ends (explain.Reuse).
//  2. In which order are the places tried (search.Solve)? First on idle resources, then also on resources being released; first as a
//     whole in one group, then spread over several; first without the nodes that the job should avoid, then with them (tryInOrder).
//  3. Which groups may hold the job? Its demand is counted by task class. Groups whose nodes have room for fewer tasks, by an
//     upper bound or by a proof of package packing, are left out (candidates). The others are tried, best first,
//     and inside each the narrower groups before the group itself (tryGroup).
//  4. A partSearch places the first tasks, enough for the minimum: by rank if the plugin knows ranks, else class by class,
//     the largest first. If that fails, it tries other ways: a packing plan, other orders, other tasks (retryRearranged). Jobs
//     with HyperNodes or sub-groups are placed in HyperNodes that plugins allow, sub-job by sub-job (placeInHyperNodes).
//  5. A trial places tasks, each in a statement of its own (trial.Try). A placer asks for the best node (feasible.Finder.Choose),
//     reserves it, and tries the next best if a plugin then refuses. Tasks of one class are placed as a batch, distributed over
//     the fewest and tightest groups.
//  6. Are enough tasks placed? The gang plugin decides: ready, pipelined (ready once resources are released), or not placed. If
//     the job is not placed, the whole trial is taken back, the last placement first. If a plugin scores finished placements, all
//     groups are tried, and then a new trial is made in the best group: volumes and devices that the first trial chose were
//     released with it.
//  7. A job that is ready is committed (finish): its statements hand the tasks to the cache, which makes a bind transaction of them.
//     The job is tried again for its remaining tasks. A pipelined job keeps its placement until the session ends. For a job
//     that was not placed, the reasons are recorded for each group (explain.RecordUnplaced), from the shortfalls of its trials.
//
// # Where to add a rule
//
// A rule about a task and a node is a plugin's predicate or score, whose Signer says for which other tasks the result
// holds; this package needs no change for it. Plugins also decide where a job may be placed and which groups are better
// (PlacementGenerator, PlacementScorer). The search for a placement is changed in package search: another way
// to arrange a gang's tasks is a step of retryRearranged, another order of places is a step of tryInOrder. A cheaper
// reason to leave a group out belongs in candidates; it must never refuse a group in which a trial could succeed. A new field
// of pods that affects filter results must be added to the class key of package feasible, whose test fails until it is added.
//
// # Invariants
//
// A trial is kept or taken back as a whole: between trials the session is unchanged. Nothing depends on the order of maps:
// nodes, groups and HyperNodes are processed by name, ties are broken by name. A result kept from one session to the
// next (package crosssession) equals the one that a new search would find. Every search is bounded in work, not in time, so
// that equal sessions give equal results on any machine. Three limits for each namespace are exceptions: the time of attempts
// that find no room (WithAttemptLimit), of device searches in plugin dynamicresources, and of slow filters of plugins of
// kube-scheduler.
package allocate
