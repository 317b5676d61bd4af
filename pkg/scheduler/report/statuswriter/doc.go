// SPDX-License-Identifier: Apache-2.0

// Package statuswriter writes statuses outside the session loop.
//
// Sessions submit the desired statuses of pods, queues (podsandqueues.go) and PodGroups (podgroups.go). Only
// the newest desired status of each object counts. The workers of a Writer (writer.go) write it, with retries, if
// it differs from the API server's status. A status that the API server permanently rejects is dropped and reported
// (rejections.go). The next session can read the desired status of a PodGroup that the watch does not show yet
// (Decided). PatchPodConditions changes conditions of a pod at once, on the caller's goroutine.
//
// The package does not depend on the cache: it reads the cluster through Dependencies.
package statuswriter
