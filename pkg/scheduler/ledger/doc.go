// SPDX-License-Identifier: Apache-2.0

// Package ledger carries out the decisions of sessions: it binds gangs and evicts pods.
//
//   - Add reserves a task in the books and adds it to its gang's open transaction (open.go). Seal hands all open transactions to the
//     binding engine, and SubmitWhole only complete transactions. ReleaseIncomplete releases incomplete transactions (transactions.go).
//   - CancelPod, CancelGang and CancelNode fail members whose pod, PodGroup or node was deleted.
//   - The engine asks the quorum whether a gang reaches its minimum (quorum.go), writes through the binder (binder.go), and records the
//     outcome in the Ledger (ledger.go), which updates the books and the gang's backoff, and reports the outcome.
//   - An Evictor deletes pods, even if their statuses cannot be written (evictor.go). It asks the API server about pods with a
//     PodDisruptionBudget if this scheduler may (permission.go).
//
// Invariants: no API call happens under the books' mutex. A task is Binding exactly while it is a member of a
// transaction that has neither bound nor released it. After that it is Bound, or Pending again. Of the pods with one name, at most one
// is in transactions at a time.
//
// The package uses the books, the engine and package report. It reads the watched objects through listers, and uses neither
// informers nor sessions.
package ledger
