// SPDX-License-Identifier: Apache-2.0

// Package statuswriter writes statuses off the session loop.
//
// Sessions submit desired statuses of pods, queues (podsandqueues.go, queueclient.go) and PodGroups (podgroups.go).
// Only the newest for each object counts. A Writer (writer.go) with workers of its own writes it if it differs from the
// API server's, with retries. It drops and reports statuses that the API server refuses for good (refusals.go).
// Statuses of PodGroups that were decided and are not in the watch yet are available to the next session (Decided).
//
// It does not depend on the cache: it reads the cluster through Dependencies.
package statuswriter
