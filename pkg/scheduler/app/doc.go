// SPDX-License-Identifier: Apache-2.0

// Package app makes a process of the scheduler: flags, configuration and its reload, leader election, the HTTP
// servers, the scheduling loop and an orderly end.
package app
