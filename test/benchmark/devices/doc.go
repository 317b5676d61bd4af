// SPDX-License-Identifier: Apache-2.0

// The devices benchmark measures what it takes to decide which GPUs and NICs pods get, on clusters in memory: docs/benchmarks.md says how to
// read it.
//
// Rows of sessions run the whole allocate action with the chart's conf and deviceshare, as the allocate benchmark does. Beside ours, upstream's does a simpler
// job on equal nodes: its vGPU mode, which knows no NICs and no topology. That mode is a switch of the process, so this is a command of its own. The row of
// joint requests asks the plugin alone about every node.
//
// Which devices each pod was given is added up here by code of its own (check.go).
package main
