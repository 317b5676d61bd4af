// SPDX-License-Identifier: Apache-2.0

// Command conformance runs upstream's own tests against this build and compares the verdicts with the verdicts of
// upstream's own scheduler:
//
//   - its end-to-end suites hypernode, schedulingaction and schedulingbase, each spec in a separate process on a real
//     control plane, where kwok ends containers as a kubelet would (testcluster.go, spec.go);
//   - its unit tables of actions and plugins, whose sessions are opened by package adapter, once as upstream opens
//     them and once by this project's framework, cache and allocate (table.go, rewrite.go).
//
// The sources are read from the module cache in the version that go.mod names, and compiled in separate modules below
// --work. This repository contains none of them. It contains the names of the cases with upstream's verdicts
// (upstream.tsv, written by --upstream) and the accepted differences, each with its reason (accepted.tsv).
//
// A case of upstream.tsv that was not run is a difference, and so is a spec that passes only when it is retried. The
// page is written for whole runs only. Parts are run like this:
//
//	go run ./test/conformance --parts hypernode --focus 'Case 1'
//	go run ./test/conformance --parts tables --focus actions
package main
