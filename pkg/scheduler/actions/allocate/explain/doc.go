// SPDX-License-Identifier: Apache-2.0

// Package explain records why a job was not placed (RecordUnplaced): for each node group or HyperNode where it may be
// placed, or for all nodes, how many of the needed members fit, and the reason that stops the next member. The numbers
// and reasons come from trials, or from arithmetic whose results equal gangs share. Reuse repeats the explanation of
// the last session if nothing that affects the job has changed. A GangGroup does the same for the gangs of a gang group.
package explain
