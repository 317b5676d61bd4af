// SPDX-License-Identifier: Apache-2.0

// Package cache implements upstream's cache interface on informers and books of this project. It owns the parts around
// the books and connects them.
//
//   - Informers (sources.go, factories.go, informers.go) pass objects to the handlers (handlers.go, eventhandlers.go,
//     claims.go, storage.go). The handlers write the objects to the books (package books), and then wake the loop, end
//     waits of gangs and cancel members of transactions.
//   - Sessions call the methods in session.go: they get a snapshot (snapshot.go, orphans.go, overcommit.go), and hand
//     over placed tasks, evictions and their verdicts on gangs. Package ledger binds and evicts, package report
//     publishes the verdicts.
//   - Objects that would break or slow cycles are left out of snapshots (package quarantine, quarantine.go), and so are
//     HyperNodes that are faulty or contradict others (hypernodes.go).
//   - Plugins use a Handle (handle.go).
//   - The other methods of upstream's interface are in upstreamadapter.go. They use shards.go for NodeShards and
//     load.go for the load of nodes.
//
// Data flows one way: informers -> handlers -> books -> snapshots -> sessions -> ledger -> report. No part refers to
// the type Cache.
//
// Invariant: no channel send and no API call happens under the books' mutex.
package cache
