// SPDX-License-Identifier: Apache-2.0

// Package volumebinding prepares persistent volumes for gangs, by the rules of Kubernetes' volume binder.
//
//	during a session                                     pre-bind, outside of the session
//	find ──► assume ──► handed over ──────────────────► write ──► wait until all claims are bound ──► release
//	           │            │                             │                  │
//	           │ placement  │ transaction ended           │ a step failed, or the gang
//	           │ reverted   │ without binding the pod     │ is rolled back
//	           ▼            ▼                             ▼
//	        release      withdraw the writes that did not take effect, then release
//
// The type objects reads volumes, claims and nodes from informers. The plugin's only other state is the type assumptions
// (volumes.go). It records which claims placed pods hold, and which volumes are assumed for these claims. This state outlives
// sessions and configurations. One instance exists for each set of informers.
//
// Find returns the volumes that a pod's claims would get on a node (session.go, claims.go). For bound claims, it checks that the
// node reaches their volumes (reach.go). For other claims, it searches the volumes and storage capacities that the session's nodes
// reach (candidate.go, free.go, inventory.go). Pods with equal claims share results (equivalence.go). Assume reserves the volumes
// in memory, so that no two claims get the same volume (assume.go). The pre-bind step sends one write for each claim (write.go).
// The write reserves a volume for the claim, or selects the node on which a provisioner creates a volume. If members share a
// claim, only one of them sends the write. Then the step waits until the informers show that all claims are bound, or that a claim
// can no longer be bound (await.go). withdraw.go undoes writes, also after a crash (recover.go). If a former leader's write cannot
// be withdrawn, only the pods of that claim wait for it. restrictions.go handles volumes that two pods may not use at the same
// time.
//
// Invariants:
//   - A claim, and its volume or storage capacity, is assumed as long as a pod holds the claim. A pod holds its claims until all of
//     them are bound, its placement is reverted, or its rollback has succeeded.
//   - The API server rejects each write, also a write that undoes another, if the object has changed since the plugin read it. The
//     plugin undoes nothing that the volume controller or a provisioner has completed.
//   - The plugin never makes a volume free that may hold data of a claim. A volume in phase Available or Pending was not bound to
//     the claim. A Released volume may have been bound. So it stays Released, and an event on the volume says what to do.
package volumebinding
