// SPDX-License-Identifier: Apache-2.0

// Package state has what allocate knows of a session (Run) and of one job that it tries to place (Attempt): the job's tasks to be placed,
// where they may lie, what the minimum needs, class by class (Demand) and in numbers (PackingInput), how far the job has come (Progress), and
// what trials found out (Findings). Fingerprints name all that decides on a job.
//
// It places nothing, and knows neither trials nor the order in which places are tried.
package state
