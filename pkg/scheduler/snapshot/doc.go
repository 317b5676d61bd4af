// SPDX-License-Identifier: Apache-2.0

// Package snapshot makes what sessions open on without the work that upstream does again for each session.
//
//   - Copies (copies.go) gives out the copies of nodes and jobs of the last session again where they are as good as new;
//     nodeclone.go, jobclone.go and taskclone.go say when a copy is as it was made, and equal.go compares.
//   - Deferred (deferred.go) keeps from upstream what it would copy while it makes a session, and gives it to the session when its first
//     plugin opens.
//
// It knows of this project binding, for a gang's least number of members.
package snapshot
