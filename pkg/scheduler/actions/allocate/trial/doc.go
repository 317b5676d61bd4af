// SPDX-License-Identifier: Apache-2.0

// Package trial places the tasks of a Part in the session and takes them back when they are not enough. A trial is kept
// or taken back whole.
//
// Try places tasks in the order of an Arrangement, TryPlan and TryPlanned by a packing plan, and TryShares by a
// plan that says how many tasks each node takes. All of them ask every plugin about each task (placer), place it in a
// statement of its own (Changes), and at the end ask the gang plugin for the outcome: ready, pipelined, or not placed.
// How far a trial came, and why it stopped, is recorded in the attempt's findings.
//
// Callers decide which places and orders are tried.
package trial
