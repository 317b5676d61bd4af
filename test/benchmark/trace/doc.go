// SPDX-License-Identifier: Apache-2.0

// The trace benchmark runs the protocol of Weng et al. ("Beware of Fragmentation", USENIX ATC 2023) through sessions of this project's allocate action with the
// plugin deviceshare, and prints how much of a cluster's GPUs is allocated by each strategy: docs/benchmarks.md says how to read it.
//
//	trace (trace.go, synthetic.go) ── tasks added or removed at random until they ask for 1.3 times the GPUs, and shuffled (arrivals.go)
//	                               ── perhaps grouped in gangs (gangs.go)
//	                               ── arrive, a few jobs a session (cluster.go, objects.go); what is not placed is taken away
//	                               ── share of GPUs allocated when so much has arrived (figures.go)
//
// A run of the protocol knows of a strategy only its name in the conf, and checks what came out: no GPU is given twice (audit.go).
package main
