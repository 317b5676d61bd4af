// SPDX-License-Identifier: Apache-2.0

// Package topology reads which nodes form a group (an InfiniBand cluster, a spine, a leaf) from labels or HyperNodes.
// It knows nothing of informers, sessions or plugins.
package topology
