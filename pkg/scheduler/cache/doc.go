// SPDX-License-Identifier: Apache-2.0

// Package cache implements upstream's cache interface on informers and books of this project, with bind transactions.
//
//   - Informers (sources.go, factories.go, informers.go) show objects to the handlers (eventhandlers.go, claims.go, storage.go), which
//     write them to the books (package books) and then wake the loop, end waits and cancel members.
//   - AddBindTask reserves a task and adds it to its gang's open transaction; sealing a transaction hands it to the binding engine
//     (transactions.go). The cache is the engine's ledger (ledger.go), its gatekeeper (quorum.go) and its binder (binder.go).
//   - Status writes leave the session loop (package statuswriter), and so do events, of which none is told twice (package events).
//     What they say is decided here (jobstatus.go, report.go, stuck.go).
//   - Evictions delete pods whatever becomes of their statuses, and the victims are leaving at once (evictor.go).
//   - Pods of a gang that waits say what its PodGroup says, which is the session's one explanation (verdict.go); gangs
//     that no session sees, for want of a PodGroup or a queue, are told that (strays.go).
//   - Objects that would stop everybody else are left out of snapshots, and told (package setaside, aside.go).
//   - HyperNodes that are faulty or contradict others are left out and told (hypernodes.go).
//   - A snapshot gives pending tasks a pod of their own, since allocation writes into it (snapshot.go).
//   - What only upstream's other front ends need is in upstream.go, shards.go and load.go.
//
// Invariants: no channel send and no API call happens under the books' mutex. A task is Binding exactly while it is
// a member of a transaction that has not ended for it, in every snapshot; then it is Bound or Pending again. Of the pods of
// one name, one is in transactions at a time.
package cache
