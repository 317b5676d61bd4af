// SPDX-License-Identifier: Apache-2.0

// The e2e benchmark sends the same gangs of pods through several schedulers, each as its own process beside its own
// fresh control plane, and prints what each of them needed: docs/benchmarks.md says how to read it.
//
// One trial is one scheduler in one mode with one kind of placement (trial.go):
//
//	control plane up, nodes, scheduler, one gang to warm it up
//	wait until the rest of the machine is quiet
//	offer the gangs (offer.go) ── watch the pods get bound (watch.go)
//	wait until the scheduler writes nothing more, count what it wrote (audit.go) and used (usage.go)
//	idle CPU, then lone gangs on the idle cluster (lone.go)
//	control plane down
//
// The scheduler called raw is no scheduler: it is this process posting Bindings for nodes that were known before, as
// fast as the API server takes them (raw.go). It is the limit that the others are held against.
package main
