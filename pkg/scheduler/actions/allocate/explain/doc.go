// SPDX-License-Identifier: Apache-2.0

// Package explain says why a job was not placed (RecordMisfit): for each place where it may lie, how many of the needed members
// fit, and the reason that stops the next. The answer comes from trials, or from arithmetic that equal gangs share. Reuse repeats
// the explanation of the last session if nothing that affects the job has changed.
package explain
