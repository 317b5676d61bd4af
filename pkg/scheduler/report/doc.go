// SPDX-License-Identifier: Apache-2.0

// Package report publishes the state of gangs to users: in conditions of PodGroups and pods, in events, and in PodGroup statuses.
//
//   - SessionDone takes a session's verdict on a gang. It corrects the status from the books (status.go, ineffective.go) and
//     publishes the verdict to the gang's pods (verdict.go), again every few minutes (memory.go).
//   - Failed and Publish report a transaction with members that were not bound (failure.go), Observe a member that waits long (delays.go).
//   - Unseen reports the gangs that no session sees (unseen.go), ReportQuarantined and Panicked the quarantined objects (report.go).
//   - All reports go through an outlet (outlet.go): events through package events, which drops repetitions, and statuses through package
//     statuswriter, which writes them off the session loop.
//
// A Reporter reads the books and the PodGroups of the watch. It decides nothing about scheduling and does not call the cache or the
// binding engine: they pass their decisions as values. Its methods do not block and are safe for concurrent use.
package report
