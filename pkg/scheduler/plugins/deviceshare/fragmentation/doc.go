// SPDX-License-Identifier: Apache-2.0

// Package fragmentation measures how much of a node's free GPUs future tasks could not use, and scores placements by
// how little that part grows.
//
// The idea is from Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
// Descent" (USENIX ATC 2023). A node's free GPUs are a fragment for a class of tasks if no task of the class can use them:
// the node has too little CPU or memory or too few NICs for one such task, has too few GPUs with enough left, or is of
// a model that the class does not allow. A GPU that has less left than a share needs is a fragment, too. The mean over
// the classes, weighted by their frequency, is the fragment that the next task is expected to find:
//
//	fragment(node) = Σ weight(class) × free GPUs that the class cannot use      for the next task
//	               + free GPUs that the node's CPU and memory                  for all later ones
//	                 do not suffice for, at the classes' mean
//
// The second term is an addition of this project. The first one considers a single task, so it finds no fragment on a
// node with eight free GPUs and CPU for one of them. The second adds the GPUs that remain when the node is filled with
// tasks that need, for each GPU, the mean CPU and memory of the classes.
//
// The classes and their weights come from recent tasks (Histogram). A class that allows a tenth of the cluster's GPUs
// weighs ten times as much (Supply), so that tasks which may use any model leave rare models to tasks that need them.
// Tasks without GPUs are not counted as classes: they can use no GPU of any node, so they would not change the comparison
// of nodes. They are placed by the same measure, on the nodes where they take the least from GPUs.
//
// The package is safe for concurrent use and independent of sessions.
package fragmentation
