// SPDX-License-Identifier: Apache-2.0

// Package control lets the end-to-end tests and the plugins of their scheduler communicate through files in a directory
// (Dir). Tests write orders there and read the calls of the plugins, which outlive a killed scheduler. The package
// imports nothing of the scheduler.
package control
