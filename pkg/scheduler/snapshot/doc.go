// SPDX-License-Identifier: Apache-2.0

// Package snapshot reduces the work of opening a session on a snapshot of the books.
//
//   - Copies (copies.go) reuses the copies of nodes and jobs of the last session where source and copy are unchanged;
//     nodeclone.go, jobclone.go and taskclone.go decide whether a copy is unchanged, and equal.go compares.
//   - Deferred (deferred.go) hides from upstream the parts that it would copy while it creates a session, and restores
//     them when the first plugin opens.
//   - Summaries (summary.go) shorten the passes that upstream makes over all tasks.
//
// Of this project it imports only binding, for a gang's least number of members.
package snapshot
