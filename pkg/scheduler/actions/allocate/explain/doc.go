// SPDX-License-Identifier: Apache-2.0

// Package explain says why a job was not placed (RecordMisfit): of each place where it may lie, how many of the members that it needs fit, and
// what stops the next. That is what trials found there, or arithmetic that equal gangs share. Reuse gives the explanation of the session
// before again, where all that decides on the job is as it was.
package explain
