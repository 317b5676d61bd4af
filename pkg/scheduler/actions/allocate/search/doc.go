// SPDX-License-Identifier: Apache-2.0

// Package search looks for room for a job (Solve), or for all gangs of a gang group at once (GroupSearch). It decides which places are tried and in which
// order, for tasks and for gangs; package trial places the tasks.
//
// A job is tried in node groups (groups.go), in HyperNodes (hypernode.go), by the plans of a plugin that gathers it (topologyplan.go), or anywhere.
// In each place a partSearch tries the first orders of the tasks and then others, packings and choices (partsearch.go, rearrange.go,
// packedtrial.go). A result stays in the session until its caller commits or discards it.
package search
