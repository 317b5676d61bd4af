// SPDX-License-Identifier: Apache-2.0

// Package allocator finds devices for a pod on a node. It knows nothing of sessions, informers or the API server, and is safe for concurrent use: what it is given
// does not change.
//
//	pod ──► Request ─┐
//	                 ├──► Allocate ──► Allocation ──► annotation
//	Device ─► Inventory ─► State ─┘
//
// The wire formats are Koordinator's (https://koordinator.sh/docs/user-manuals/fine-grained-device-scheduling).
package allocator
