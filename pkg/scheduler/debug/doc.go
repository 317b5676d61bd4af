// SPDX-License-Identifier: Apache-2.0

// Package debug shows the current state of gangs. It counts gangs by state. For each gang it shows the settings of its
// user and their effect, the progress of its members, and why it waits. It reads the scheduler's cache, a part at a
// time, and the results of the last session; it keeps no state.
package debug
