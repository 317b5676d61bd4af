// SPDX-License-Identifier: Apache-2.0

// Package nodeset numbers the nodes of a session and makes sets of them: of a node group, of a HyperNode, of all nodes but
// some, and intersections of two sets.
//
// A node's number is its place in the order of names, so that loops by number have a fixed order, and ties are broken by
// name. A set is created once and always has the same pointer: data cached by set, as in allocate's caches, is found again
// for another gang.
//
// The index logs which nodes changed when the session places tasks and takes them back. A reader that remembers its
// position in the log looks again only at these nodes (Changed).
package nodeset
