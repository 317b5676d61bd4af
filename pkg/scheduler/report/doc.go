// SPDX-License-Identifier: Apache-2.0

// Package report publishes the state of gangs to users: in conditions of PodGroups and pods, in events, and in PodGroup
// statuses.
//
//   - PendingGangs decides, when a session closes, on one reason for each gang that waits (pendinggangs.go,
//     pendingreason.go, shortage.go, foreign.go) and how often its text may change (pace.go), and measures how long gangs
//     wait (pendingtimer.go). Actions and plugins record their reasons in the session.
//   - SessionDone takes a session's verdict on a gang. It corrects the PodGroup's status from the books (status.go,
//     ineffective.go). It publishes the verdict to the gang's pods (verdict.go), and again every few minutes
//     (history.go).
//   - Failed and Publish report a transaction with members that were not bound (failure.go). Observe reports a member
//     that waits long (delays.go). Evicted reports a victim (eviction.go).
//   - Unseen reports the gangs that no session sees (unseen.go). ReportQuarantined and Panicked report quarantined
//     objects (report.go).
//   - All reports go through an outlet (outlet.go). Events go through package events, which drops repetitions. Statuses
//     go through package statuswriter, which writes them outside the session loop.
//
// A Reporter reads the books and the PodGroups from the watch. It decides nothing about scheduling, and does not call
// the cache or the binding engine. The cache and the engine pass their decisions to it as values. Its methods are
// safe for concurrent use and do not block, except Evicted. PendingGangs reads only sessions.
package report
