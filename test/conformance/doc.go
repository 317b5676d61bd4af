// SPDX-License-Identifier: Apache-2.0

// Command conformance runs upstream's own tests against this build and compares the verdicts with those of upstream's
// own scheduler:
//
//   - its end-to-end suites hypernode, schedulingaction and schedulingbase, each spec in a process of its own on a real
//     control plane, where kwok ends containers as a kubelet would (world.go, spec.go);
//   - its unit tables of actions and plugins, whose sessions are opened by package adapter, once as upstream opens them
//     and once by this project's framework, cache and allocate (table.go, rewrite.go).
//
// The sources are read out of the module cache of the version that go.mod names and compiled in modules of their own
// below --work; nothing of them is kept in this repository. Kept are names of cases with upstream's verdicts
// (upstream.tsv, written by --upstream) and the differences that are accepted, each with its reason (accepted.tsv).
//
// A case of upstream.tsv that was not run is a difference, and so is a spec that passes only when it is tried again. The page
// is written of whole runs only; parts are run like this:
//
//	go run ./test/conformance --parts hypernode --focus 'Case 1'
//	go run ./test/conformance --parts tables --focus actions
package main
