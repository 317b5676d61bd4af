// SPDX-License-Identifier: Apache-2.0

// Package memory keeps results that allocate would find again in the next session: answers to packing problems, explanations of
// gangs and of units of gangs, and ways that are known to fail. It also divides the steps that searches may take in a session
// (Budget), so that each search has its turn.
//
// Entries that a session does not use are dropped after the next one. The package knows of no session: its keys are fingerprints
// and the numbers of problems.
package memory
