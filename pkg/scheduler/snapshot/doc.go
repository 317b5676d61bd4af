// SPDX-License-Identifier: Apache-2.0

// Package snapshot makes what sessions open on: upstream's snapshot, without the work that upstream does anew for each session.
//
//   - Snapshotter (snapshotter.go) hands out the copies of nodes and jobs of the last session again where they are as good as new;
//     nodeclone.go, jobclone.go and taskclone.go say when they are, and equal.go compares.
//   - Deferred (deferred.go) keeps from upstream what it would copy while it makes a session, and gives it to the session when its first
//     plugin opens.
//
// It reads upstream's cache and sessions, and changes neither but as its callers say. Of this project it knows binding, for a gang's
// least number of members.
package snapshot
