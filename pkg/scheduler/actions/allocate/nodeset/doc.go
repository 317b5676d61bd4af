// SPDX-License-Identifier: Apache-2.0

// Package nodeset numbers the nodes of a session and makes sets of them: of a node group, of a HyperNode, of all nodes but
// some, and of what two sets have in common.
//
// A node's number is its place in the order of names, so that who goes through nodes by number does so in one order, and
// equals are told apart by name. A set is made once and then always the same pointer: who keeps something by set, as
// allocate's caches do, finds it again for another gang.
//
// The index logs which nodes changed, by what the session places and takes back. Who remembers how far it has read the log
// looks again at these nodes only (Changed).
package nodeset
