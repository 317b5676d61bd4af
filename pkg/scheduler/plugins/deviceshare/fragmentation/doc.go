// SPDX-License-Identifier: Apache-2.0

// Package fragmentation measures how much of a node's free GPUs future tasks could not use. It scores placements by the growth
// of this part: less growth is better.
//
// The idea is from Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
// Descent" (USENIX ATC 2023). A node's free GPUs are a fragment for a class of tasks if no task of the class can use them.
// There are three causes. The node has too little CPU or memory or too few NICs for a task. It has too few GPUs with a
// large enough free share. Or its GPUs are of a model that the class does not allow. A single GPU is a fragment, too, if its
// free share is smaller than a task needs. The mean over the classes, weighted by their frequency, is the fragment that the
// next task is expected to find:
//
//	fragment(node) = Σ weight(class) × free GPUs that the class cannot use      for the next task
//	               + free GPUs that the node's CPU and memory                  for all later tasks
//	                 do not suffice for, at the classes' mean
//
// The second term is an addition of this project. The first term considers a single task, so it finds no fragment on a
// node with eight free GPUs and CPU for one of them. The second term adds the GPUs that remain when the node is filled with
// tasks that need, for each GPU, the mean CPU and memory of the classes.
//
// The classes and their weights come from recent tasks (Histogram). A class that allows a tenth of the cluster's GPUs
// weighs ten times as much (Supply), so that tasks which may use any model leave rare models to tasks that need them.
//
// Tasks without GPUs are not counted as classes: they can use no GPU of any node, so they would not change the comparison
// of nodes. They are scored by the same measure, which prefers nodes where their CPU and memory make the fewest GPUs useless.
//
// The package is safe for concurrent use and independent of sessions.
package fragmentation
