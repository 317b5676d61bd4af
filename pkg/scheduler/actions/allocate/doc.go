// SPDX-License-Identifier: Apache-2.0

// Package allocate is this project's allocate action. It places whole gangs, on one node group where they need one, with
// the verdict of every plugin on every node.
//
// How it works, from the inside out:
//
//   - A board numbers the session's nodes by name and logs which of them changed.
//   - A shape stands for equal tasks. It keeps, per node, the plugins' verdict and score until that node changes, for all
//     gangs of the session.
//   - A field is a shape on a domain (a set of nodes): a heap of the nodes that take one more such task, best first. Taking
//     the best and looking again at what changed places a batch of equal tasks. Tasks whose verdict depends on what is
//     placed elsewhere use the field for what does not, and ask the rest again for every task.
//   - A placer makes one attempt at a set of tasks on a site, in a statement that is kept or discarded whole. When tasks of
//     different sizes get into each other's way a packing search finds room for all, if there is.
//   - A demand is what unlike tasks ask for in numbers. Package packing says of it, before an attempt is made in a domain,
//     whether there can be room there.
//   - A print is of all that decides on a gang of unlike tasks: while it stays, what the session before found is told again.
//   - A trial is an attempt at a gang's minimum in one node group or HyperNode. The best one is made again, not replayed.
//
// Nothing depends on the order of maps: nodes, groups and HyperNodes are looked at by name, equals are told apart by name.
package allocate
