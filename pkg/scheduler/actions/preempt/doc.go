// SPDX-License-Identifier: Apache-2.0

// Package preempt has this project's actions preempt and reclaim. Preempt evicts pods of a queue for starving gangs of the
// same queue, reclaim pods of other queues (candidates). Both make room for a whole gang or gang group at a time.
//
// For each starving gang, in the plugins' order:
//
//  1. The plugins say which running pods may be evicted (Preemptable, Reclaimable). Pods that a gang's minimum needs are evicted
//     together or not at all (unit). Of an elastic gang, as many pods go one by one as it has beyond its minimum, whichever help.
//  2. For each place where the gang may be placed, arithmetic on resources chooses the cheapest units that make room for
//     the gang (planner.planFor).
//  3. The cheapest plan is tried: its units are evicted in the session, and allocate's search places the members, with
//     the verdicts of all plugins (planner.try). If a plugin refuses nodes, the place is planned again without these nodes.
//  4. Units that turn out not to be needed are put back (trial.putBack). Then the evictions are sent. If no plan
//     succeeds, the session is as before.
//
// The members stay pipelined. Plugin evictionbackoff keeps the released resources for them.
package preempt
