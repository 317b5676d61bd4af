// SPDX-License-Identifier: Apache-2.0

// Package quarantine keeps objects out of sessions that would make a cycle fail or stall, so that one tenant's object
// cannot affect others.
//
//   - Amounts that overflow upstream's arithmetic are corrected when the informer receives the object (normalize.go,
//     quantity.go) and in each snapshot. Each snapshot also corrects queues whose parents do not lead to the root queue
//     (invalidresources.go).
//   - Objects with too many parts (limits.go), and gangs that name kinds of resources that no node or queue has
//     (unknownresources.go), are left out.
//   - Objects that make cycles panic are searched for, left out, and tried again later (bisector.go, quarantined.go,
//     fingerprint.go).
//
// Quarantine (quarantine.go) is the state that the cache keeps. It changes a snapshot before a session sees it. Package
// report reports the quarantined objects.
package quarantine
