// SPDX-License-Identifier: Apache-2.0

// The devices benchmark measures the cost of assigning GPUs and NICs to pods, on clusters in memory. See
// docs/benchmarks.md for how to read the output.
//
// Rows of sessions run the whole allocate action with the chart's configuration and deviceshare, as the allocate
// benchmark does. Upstream's action does a simpler job on equal nodes: its vGPU mode has no NICs and no topology.
// That mode is a switch of the process, so this is a separate command. The row of joint requests calls the plugin
// alone for every node.
//
// The benchmark adds up the devices of each pod with separate code (check.go).
package main
