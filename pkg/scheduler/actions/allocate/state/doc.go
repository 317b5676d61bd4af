// SPDX-License-Identifier: Apache-2.0

// Package state holds allocate's data on a session (Run) and on one job that it tries to place (Attempt): the job's tasks
// to be placed, the node groups where these may be placed, the demand of the minimum, class by class (Demand) and as
// the input of packing problems (PackingInput), how far the job has come (Progress), and the results of trials (Findings).
// Fingerprints are hashes of everything that decides whether a job fits.
//
// The package places nothing, and knows neither trials nor the order in which places are tried.
package state
