// SPDX-License-Identifier: Apache-2.0

// Package packing finds room for the tasks of a gang on nodes, in numbers only: tasks are so many of each kind, a node is
// what is left of its resources. It knows nothing of scheduling, so its answers depend on the numbers alone: equal problems
// have equal answers, on any machine.
//
// Solve looks, in this order, for
//
//   - a reason why there is no room: sums, and a coarser problem in which kinds of about one size are taken for the least of
//     them, and which a search exhausts;
//   - a plan by best fit decreasing;
//   - a plan by a short search: node by node, each filled with what leaves the least waste, remembering what was in vain. It
//     exhausts small problems;
//   - a mixture: how nodes are best filled if they can be divided (a linear program). If that leaves too little room there is
//     none, and else its whole nodes are filled as it says, which are all but about as many as there are kinds;
//   - a plan that mends the mixture, by short searches on the nodes it does not fill and a few that it does;
//   - a plan by long searches.
//
// Where not all tasks are wanted the mixture is of the smallest that do.
//
// The cost grows with the kinds and the nodes that differ, little with the tasks, and is bounded in steps.
package packing
