// SPDX-License-Identifier: Apache-2.0

// Package sessiontest opens scheduling sessions on a cluster in memory for tests and benchmarks of actions and plugins:
// upstream's and this project's side by side, on equal snapshots. Binds and evictions are recorded and not performed.
package sessiontest
