// SPDX-License-Identifier: Apache-2.0

// The trace benchmark runs the protocol of Weng et al. ("Beware of Fragmentation", USENIX ATC 2023) through sessions
// of this project's allocate action with the plugin deviceshare, and prints how much of a cluster's GPUs each
// strategy allocates. See docs/benchmarks.md for how to read the output.
//
// A run has these steps:
//
//  1. Read or generate a trace (trace.go, synthetic.go).
//  2. Add or remove random tasks until the tasks request 1.3 times the GPUs, and shuffle them (arrivals.go).
//  3. Optionally group the tasks in gangs (arrivals.go).
//  4. Let a few jobs arrive per session, and remove unplaced jobs (cluster.go, objects.go).
//  5. Record the share of allocated GPUs at each mark (figures.go).
//
// A run of the protocol uses only the name of a strategy in the configuration, and checks the result: no GPU is
// assigned twice (audit.go).
package main
