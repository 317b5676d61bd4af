// SPDX-License-Identifier: Apache-2.0

// Package allocator finds devices for a pod on a node. It does not depend on sessions, informers or the API server. The package is
// safe for concurrent use, because its inputs do not change.
//
//	pod ──► Request ─┐
//	                 ├──► Allocate ──► Allocation ──► annotation
//	Device ─► Inventory ─► State ─┘
//
// The JSON formats of annotations are Koordinator's (https://koordinator.sh/docs/user-manuals/fine-grained-device-scheduling).
package allocator
