// SPDX-License-Identifier: Apache-2.0

// Package adapter opens the sessions of upstream's unit tables: the rewritten tests call it in place of upstream's
// framework. With $CONFORMANCE_SESSIONS "upstream" the sessions are upstream's own, as the tables expect. Otherwise
// they are this project's: its framework and cache over the cache of the test, its transactions, and its allocate and
// nodeorder, whatever the test registered under these names.
//
// The API server is a fake that accepts every call. It passes binds and evictions on to the binder and the evictor of
// the test, so that the unchanged checks of upstream's tables apply.
//
// The package prints a line for each session, which identifies the tests that open sessions.
package adapter
