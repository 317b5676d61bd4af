// SPDX-License-Identifier: Apache-2.0

// Package search looks for room for a job (Solve), or for all gangs of a gang group at once (GroupSearch). It decides which sets of nodes are tried, in
// which order, and in which order tasks and gangs are placed there. Package trial places the tasks.
//
// A job is tried in node groups (groups.go), in HyperNodes (hypernode.go), by the plans of a plugin that places it in one domain (topologyplan.go),
// or on all nodes. In each set of nodes a partSearch tries the tasks by rank and the largest first, and then packing plans, other orders and other tasks
// (partsearch.go, rearrange.go, packedtrial.go). A result stays in the session until its caller commits or discards it.
package search
