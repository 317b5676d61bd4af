// SPDX-License-Identifier: Apache-2.0

// Package books holds the scheduler's view of the cluster: jobs with their tasks, nodes with the tasks on them, and the small tables
// beside them (queues, priority classes, quotas, NUMA topologies, CSI nodes).
//
// # States
//
// The books keep one record for each pod name. A record has three inputs, each with one owner:
//
//	input    owner         set by                    cleared by
//	shown    informer      Pods.Show                 Pods.Hide, or Pods.Show of another UID
//	hold     transaction   Pods.Reserve, Pods.Bind   Pods.Release; Pods.Bind once the watch shows the pod on a node, or its end
//	victim   eviction      Pods.Evict                Pods.Spare, or the end of the pod
//
// Only Pods moves tasks in Jobs and on Nodes. The place and the status of a task are a function of these inputs only (record.place). Every transition changes
// one input and books the record again, that is, it recomputes the record's task. No other code moves tasks, so no task is corrected later. Only a
// node's sums of resources that float64 cannot hold exactly are added up again, before they are read (removeTask in place.go):
//
//	shown without node, no hold       Pending, on no node; Releasing if the pod is being deleted
//	shown without node, hold          Binding or Bound on the hold's node, with the requests that the transaction reserved
//	shown with a node, no victim      what the pod's phase says, on that node; a finished pod is in its job and on no node
//	shown with a node, victim         Releasing on that node
//	shown with a node, being deleted  Releasing in its job; on that node Releasing while it leaves, and Unknown while it stays (leaving.go)
//	not shown                         in no job and on no node; a hold only keeps the pod's name from another transaction
//
//	                   Reserve             Bind              Show (with a node)
//	Pending ─────────────────► Binding ─────────► Bound ─────────────────────────► Bound, Running, ...
//	   ▲                          │ Release
//	   └──────────────────────────┘
//
// A job stays in its queue while a task of it holds resources, whatever queue its PodGroup names now; only a snapshot moves a job (jobqueue.go).
// A task that has a node does not go to a job of another queue.
//
// A node has an entry while a Node object is shown, or a task or a NUMA topology names it. The tasks of a deleted Node stay in its
// entry, so the node has them at once when it is registered again. A job has an entry while its PodGroup is shown or a pod names it.
//
// # Copies
//
// Each entry of a node or a job has a generation, which every change of the entry raises. A session gets copies of the entries, which
// it may change. Snapshot copies an entry again only if its generation has changed since the last copy, or if the last
// session has changed its copy. Package snapshot compares the copy with its original state. Where that suffices, it
// compares only the number of tasks and the sums of their requests, and not each task. Nodes and jobs are listed by
// generation, the latest change first (recent.go), so that Snapshot reads only the entries that
// have changed since the last snapshot.
// Entries of nodes with a NUMA topology are always copied, because sessions allocate CPUs in them. Full copies
// everything and serves readers outside the scheduling loop.
//
// # Rules
//
// One mutex guards all of it. No method calls the API server or waits while it holds the mutex. Lock and Unlock are exported for
// readers; readers must not change the values that they get. Objects of informers are read-only, even for the books: an entry that needs another
// annotation or quantity has a copy.
//
// The package uses upstream's types of package api, which sessions consist of. It uses neither informers nor the API server.
package books
