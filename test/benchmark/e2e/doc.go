// SPDX-License-Identifier: Apache-2.0

// The e2e benchmark sends the same gangs of pods through several schedulers. Each runs as a separate process beside a
// new control plane, and the benchmark prints its cost. See docs/benchmarks.md for how to read the output.
//
// One trial is one scheduler in one mode with one kind of placement (trial.go):
//
//	control plane up, nodes, scheduler, one warm-up gang
//	wait until the rest of the machine is quiet
//	offer the gangs (offer.go) ── watch the pods get bound (watch.go)
//	wait until the scheduler no longer writes, count its writes (audit.go) and usage (usage.go)
//	idle CPU, then lone gangs on the idle cluster (lone.go)
//	control plane down
//
// With --filler-cpus, running pods of low priority fill the nodes before the scheduler starts (fullcluster.go), and gangs of
// high priority preempt them. Small gangs that need no eviction are submitted before and meanwhile (burst.go), and the
// evictions are counted (evictions.go).
//
// The scheduler called raw is not a scheduler: this process posts Bindings for known nodes as fast as the API server
// accepts them (raw.go), and deletes a pod for each few of them in a full cluster. The other schedulers are compared with this
// limit.
package main
