// SPDX-License-Identifier: Apache-2.0

// Package fragmentation measures how much of a node's free GPUs the tasks to come cannot use, and scores placements by how little that grows.
//
// The idea is of Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent" (USENIX ATC 2023). What a
// node has free of its GPUs is a fragment for a kind of task that cannot use it: the node lacks the CPU, the memory or the NICs for one such task, has too
// few GPUs with enough left, or is of a model that the kind does not allow; and of a GPU that has less left than a share needs, it is what that GPU has left.
// Weighed by how often each kind comes, that is the fragment that the next task is expected to find:
//
//	fragment(node) = Σ weight(kind) × what the kind cannot use      for the next task
//	               + free GPUs that the node's CPU and memory      for all those after it
//	                 do not suffice for, at the kinds' mean
//
// The second term is ours. The first one asks about a single task, so it finds nothing wrong with a node of eight free GPUs and CPU for one of them. It
// adds what is left over when the node is filled with tasks that need as much CPU and memory for a GPU as the kinds do on average.
//
// The kinds and their weights are of the tasks that came lately (Histogram); one that allows a tenth of the cluster's GPUs weighs ten times as much (Supply), so that tasks which
// may go anywhere leave rare models to those that need them. Tasks without GPUs are none of them: all GPUs of any node are useless to
// them, so they tell no node from another. They are placed by the same measure, where they take the least from GPUs.
//
// The package is safe for concurrent use and knows nothing of sessions.
package fragmentation
