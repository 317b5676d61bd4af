// SPDX-License-Identifier: Apache-2.0

// The trace benchmark runs the protocol of Weng et al. ("Beware of Fragmentation", USENIX ATC 2023) through sessions
// of this project's allocate action with the plugin deviceshare, and prints how much of a cluster's GPUs each
// strategy allocates. See docs/benchmarks.md for how to read the output.
//
//	trace (trace.go, synthetic.go) ── tasks added or removed at random until they request 1.3 times the GPUs, and
//	shuffled (arrivals.go)
//	                               ── optionally grouped in gangs (arrivals.go)
//	                               ── arrive, a few jobs per session (cluster.go, objects.go); unplaced jobs are
//	                               removed
//	                               ── share of GPUs allocated at each mark (figures.go)
//
// A run of the protocol uses only the name of a strategy in the configuration, and checks the result: no GPU is
// assigned twice (audit.go).
package main
