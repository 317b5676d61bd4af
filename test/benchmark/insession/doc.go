// SPDX-License-Identifier: Apache-2.0

// Package insession has the shared code of the benchmarks that run sessions of upstream's allocate and of this
// project's, on clusters in memory, in one process. NewSides returns the two sides, and ParsePlan reads the command
// line.
package insession
