// SPDX-License-Identifier: Apache-2.0

// Package trial places the tasks of a Part in the session and takes them back when they are not enough. A trial is kept or taken back whole.
//
// Try places tasks in the order of an Arrangement, TryPlan and TryPlanned by a plan made of numbers, and TryShares by a plan that says how many
// tasks each node takes. All of them ask every plugin about each task (placer), place it in a statement of its own (Changes), and ask the gang
// plugin at the end whether that is enough: ready, pipelined, or not placed. How far a trial came, and what stopped it, is a finding of the
// attempt.
//
// The package does not know which places and orders are tried: its callers do.
package trial
