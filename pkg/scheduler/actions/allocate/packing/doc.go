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
//   - a plan by search: node by node, each filled with what leaves the least waste, remembering what was in vain. Its cost
//     grows with the kinds and the nodes, not with the tasks, and it is bounded in steps.
package packing
