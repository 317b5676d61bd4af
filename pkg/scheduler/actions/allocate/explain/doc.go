// SPDX-License-Identifier: Apache-2.0

// Package explain records why a job was not placed (RecordUnplaced): for each place where it may be placed, how many of
// the needed members fit, and the reason that stops the next one. This comes from trials, or from arithmetic that equal
// gangs share. Reuse repeats the explanation of the last session if nothing that affects the job has changed.
package explain
