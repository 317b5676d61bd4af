// SPDX-License-Identifier: Apache-2.0

// Package packing finds room for the tasks of a gang on nodes, in numbers only: a task is one of a class, a node is a vector
// of remaining resources. It knows nothing of scheduling, so its answers depend on the numbers alone: equal problems have
// equal answers, on any machine.
//
// Solve tries, in this order, to find
//
//   - a proof that there is no room: by sums, and by a coarser problem that a search exhausts, in which classes of similar size
//     are treated as the smallest of them;
//   - a plan by best fit decreasing;
//   - a plan by a short search: node by node, each filled so that the least is wasted, remembering failed states. It
//     exhausts small problems;
//   - a plan by repacking the one of best fit decreasing: a few random nodes at a time are emptied and filled again;
//   - a plan by long searches.
//
// If only some of the tasks are wanted, repacking uses the smallest tasks that suffice. The answer can be Unknown although a
// plan exists, mostly if the nodes have less than 5% more room than the plan needs.
//
// The cost grows with the classes and with the number of different nodes, little with the tasks, and is bounded in steps.
package packing
