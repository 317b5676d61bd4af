// SPDX-License-Identifier: Apache-2.0

// Package statuswriter takes the writes of statuses off the session loop.
//
// Sessions leave what they desire of pods, queues (podsandqueues.go, queueclient.go) and PodGroups (podgroups.go). Of an object only
// the newest counts. A Writer (writer.go) with workers of its own writes it when it differs from what the API server has, again while
// that may help, and drops and tells what the API server refuses for good (refusals.go). What was decided of a PodGroup and the
// watch has not shown yet it gives to the next session (Decided).
//
// It knows no cache: what it asks of one is in Dependencies.
package statuswriter
