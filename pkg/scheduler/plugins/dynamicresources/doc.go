// SPDX-License-Identifier: Apache-2.0

// Package dynamicresources allocates devices for the ResourceClaims of gangs (KEP-4381), with Kubernetes' own
// allocator.
//
//	during a session                                     pre-bind, outside of the session
//	plan ──► assume ──► handed over ──────────────────► write ──► wait for binding conditions ──► bound
//	           │            │                             │                  │
//	           │ placement  │ transaction ended           │ a step failed, or the gang
//	           │ reverted   │ without binding the pod     │ is rolled back
//	           ▼            ▼                             ▼
//	        revert       withdraw the reservation, and the allocation if no other pod uses the claim, then revert
//
// A plan (plan.go) is the set of devices that a pod's claims would get on a node. To make a plan, the plugin checks the
// claims (claims.go) and finds the slices that the node reaches (inventory.go, reach.go). It excludes impossible cases
// by a matching of requested devices with free devices (demand.go, matching.go, selection.go). Kubernetes' allocator
// decides all other cases (search.go). Package workbudget limits the time of searches. A plan may exchange the devices
// of members that were placed on the node before. Pods with equal claims share filter results (equivalence.go). Assume
// marks the planned devices as allocated in the ledger (assume.go, ledger.go). Assumed allocations outlive sessions and
// configurations. The type devices holds them (devices.go), with one instance for each set of informers. Kubernetes'
// assume cache has the latest version of each claim, also one that the plugin wrote and informers do not show yet. All
// writes are in prebind.go and withdraw.go. recover.go withdraws writes after a crash, and stranded.go deallocates
// claims after the deletion of a node. conditions.go waits until devices are prepared.
//
// Invariants: no device is allocated or assumed exclusively for two claims. A placed pod holds its claims until it is bound,
// its placement is reverted, or its rollback has succeeded. The plugin never undoes allocations and reservations that another
// scheduler wrote. The exception is a claim that was generated for a pod, if the nodes of its devices no longer exist. No
// search runs under a mutex that another session, the cache or a pre-bind step needs.
package dynamicresources
