// SPDX-License-Identifier: Apache-2.0

// Package crosssession keeps results of allocate that a search in the next session would only repeat: answers to
// packing problems, explanations of gangs and of gang groups, and ways to place tasks that are known to fail. It also
// divides the steps that searches may take in a session (Budget), so that each search gets its turn. For each
// namespace, it limits the time of failed attempts (Turns), and the time in which gangs hold idle resources while they
// wait (Holds).
//
// An entry that a session does not use is dropped when the next session begins. The package is independent of sessions:
// its keys are fingerprints, names, and hashes of packing problems.
package crosssession
