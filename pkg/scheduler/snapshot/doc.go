// SPDX-License-Identifier: Apache-2.0

// Package snapshot reduces the work of taking a snapshot of the books for a session. Copies (copies.go) reuses the copies
// of nodes and jobs of the last session where source and copy are unchanged; nodeclone.go, jobclone.go and taskclone.go
// decide whether a copy is unchanged, and equal.go compares.
//
// Of this project it imports only binding, for a gang's least number of members, and upstream, to copy a node.
package snapshot
