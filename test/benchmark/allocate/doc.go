// SPDX-License-Identifier: Apache-2.0

// The allocate benchmark runs upstream's allocate action and this project's on equal clusters in memory, in one process,
// and prints what each of them needed: docs/benchmarks.md says how to read it.
//
// A kind of work (works.go) says what the cluster holds. Each run of a side (sides.go) is one session:
//
//	cluster made from nothing ── session opened ── garbage collected ── action executed ── placement checked
//	                             (printed apart)                       (this is measured)
//
// Nothing is bound: what the action hands over is written down (pkg/scheduler/testing/sessiontest) and held against what
// nodes have and gangs need (check.go), so that a fast wrong answer is no answer.
package main
