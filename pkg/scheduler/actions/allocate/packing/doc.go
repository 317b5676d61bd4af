// SPDX-License-Identifier: Apache-2.0

// Package packing finds room for the tasks of a gang on nodes, by arithmetic on resources: a task belongs to a class with a
// request, and a node is a vector of remaining resources. The package knows nothing of scheduling, so its answers depend on
// these amounts alone: equal problems have equal answers, on any machine.
//
// Solve tries, in this order, to find
//
//   - a proof that there is no room: because the nodes take too few of the largest tasks, because the tasks request more in
//     total than the nodes have, or by a complete search of a coarser problem, in which classes of similar size are merged
//     and have the smallest requests of these classes;
//   - a plan by best fit decreasing;
//   - a plan by a short search, which is complete for small problems: it fills node by node, each so that the least room is
//     wasted, and remembers states that have no solution;
//   - a plan by repacking, which improves the plan of best fit decreasing: it empties a few random nodes at a time and fills
//     them again;
//   - a plan by long searches.
//
// If only some of the tasks are wanted, repacking uses the smallest tasks that suffice. The answer can be Unknown although a
// plan exists, mostly if the nodes have less than 5% more room than the plan needs.
//
// The cost grows with the classes and with the number of different nodes, little with the tasks, and is bounded in steps.
package packing
