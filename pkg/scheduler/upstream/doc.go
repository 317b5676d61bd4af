// SPDX-License-Identifier: Apache-2.0

// Package upstream adapts Volcano's types and sessions to this project. It has the workarounds for behavior of Volcano
// ("upstream") that the project cannot use unchanged:
//
//   - JobInfo and NodeInfo panic if they subtract more than a sum has left after float64 has rounded it (tasks.go).
//   - NodeInfo refuses a task in status Binding for which it lacks idle resources (tasks.go).
//   - NodeInfo panics on a pod's NUMA decision for a resource that the node's NUMA topology lacks (tasks.go).
//   - JobInfo keeps sub-jobs that have lost their last task (tasks.go).
//   - NewNodeInfo logs a warning if there is no Node object, and NodeInfo.Clone then loses the node's name (nodes.go).
//   - NodeInfo.Clone leaves out tasks in status Binding that no longer fit on the node (nodes.go).
//   - OpenSession converts all nodes and deep copies all placed pods before a plugin opens (opensession.go, podlister.go).
//   - Plugins that open, and CloseSession, add up the requests of all tasks one by one (summaries.go, summed.go).
//   - Plugins count the minResources of admitted gangs that wait against others (standins.go).
//   - Plugins treat resources that a gang holds beyond its minResources as available to other gangs (minresources.go).
//   - Resource.IsEmpty ignores the places for pods on nodes (empty.go).
//   - Pre-predicates only add to the filters that are skipped for a task (skips.go).
//   - Sessions write the root queue to the API server from within the session loop (queueclient.go).
//
// Workarounds that belong to a larger subject are in the package of that subject: in devices for upstream's device code,
// in quarantine for objects that make upstream panic or stall, and in actions/allocate/trial for failures that
// upstream's Statement only logs. The cache implements upstream's cache interface (cache/upstreamadapter.go).
//
// The package has no policy: callers decide when a session opens, and when sums are recomputed. It imports nothing
// else of this project, except packages under internal.
package upstream
