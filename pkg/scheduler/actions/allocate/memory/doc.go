// SPDX-License-Identifier: Apache-2.0

// Package memory keeps what allocate would find again in the next session: answers to packing problems, explanations of gangs and of units of
// gangs, and ways that lead nowhere. It also divides the steps that searches may take in a session (Budget), so that each search has its turn.
//
// What a session has no use for is forgotten after the next one. The package knows of no session: its keys are fingerprints and the numbers of
// problems.
package memory
