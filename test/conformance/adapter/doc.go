// SPDX-License-Identifier: Apache-2.0

// Package adapter opens the sessions of upstream's unit tables: the rewritten tests call it where upstream's call its
// framework. With $CONFORMANCE_SESSIONS "upstream" they are upstream's own, as the tables are written for; otherwise they
// are this project's: its framework and cache over the cache of the test, its transactions, and its allocate and
// nodeorder, whatever the test registered under these names.
//
// The API server is a fake that takes every call; binds and evictions that reach it are told to the binder and the
// evictor of the test, so that what the tables check is upstream's, word for word.
//
// It prints a line for each session, by which a test is known as one of sessions.
package adapter
