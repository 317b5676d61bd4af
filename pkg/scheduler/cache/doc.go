// SPDX-License-Identifier: Apache-2.0

// Package cache is upstream's scheduler cache with bind transactions in place of its bind loop.
//
// It embeds upstream's SchedulerCache and replaces what must not be as it is there:
//
//   - AddBindTask reserves a task and adds it to its gang's open transaction instead of a channel; sealing a
//     transaction hands it to the binding engine (transactions.go). The cache is the engine's ledger (ledger.go),
//     its gatekeeper (quorum.go) and its binder (binder.go).
//   - What is reserved stays reserved, and who is on a node is on it, whatever upstream's handlers and workers make of them:
//     the books are mended before they are used (reservation.go, books.go), and tasks that upstream could not make well are
//     made anew here instead of by its worker (resync.go).
//   - Status writes leave the session loop (package statuswriter), and so do events, of which none is told twice (package events).
//     What they say is decided here (jobstatus.go, report.go, stuck.go).
//   - Evictions delete pods whatever becomes of their statuses, and the victims are leaving at once (evictor.go).
//   - Pods of a gang that waits say what its PodGroup says, which is the session's one explanation (verdict.go); gangs
//     that no session sees, for want of a PodGroup or a queue, are told that (strays.go).
//   - Objects that would stop everybody else are left out of snapshots, and told (package setaside, aside.go).
//   - HyperNodes that are faulty or contradict others are left out and told; upstream then stops all gangs with a topology
//     (hypernodes.go).
//   - A snapshot gives pending tasks a pod of their own, since allocation writes into it (snapshot.go); what has not changed since the
//     last session's is not copied anew (package snapshot).
//   - What changed is told to the loop, and the first cycle waits until the initial lists are in (eventhandlers.go, sync.go).
//
// Invariants: no channel send and no API call happens under the cache's mutex. A task is Binding exactly while it is
// a member of a transaction that has not ended for it, in every snapshot; then it is Bound or Pending again. Of the pods of
// one name, one is in transactions at a time.
package cache
