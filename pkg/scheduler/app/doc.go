// SPDX-License-Identifier: Apache-2.0

// Package app runs the scheduler as a process: flags, configuration and its reload, leader election, the HTTP servers,
// the scheduling loop and the shutdown.
package app
