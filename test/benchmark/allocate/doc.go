// SPDX-License-Identifier: Apache-2.0

// The allocate benchmark runs upstream's allocate action and this project's on equal clusters in memory, in one
// process, and prints their costs. See docs/benchmarks.md for how to read the output.
//
// A kind of work (works.go) describes the cluster. Each run of a side (sides.go) is one session:
//
//	cluster created ── session opened ── garbage collected ── action executed ── placement checked
//	                   (printed separately)                   (this is measured)
//
// Nothing is bound: the commits of the action are recorded (pkg/scheduler/testing/sessiontest) and compared with the
// capacity of nodes and the needs of gangs (check.go), so that a fast but wrong result does not count.
package main
