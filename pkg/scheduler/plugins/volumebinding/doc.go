// SPDX-License-Identifier: Apache-2.0

// Package volumebinding prepares persistent volumes for gangs, by the rules of Kubernetes' volume binder.
//
//	session                                              pre-bind, off the session loop
//	find ──► assume ──► handed over ──────────────────► write and wait until bound ──► taken
//	           │            │                                │
//	           │ taken back │ released, begun or not         │ failed, or its gang was
//	           ▼            ▼                                ▼
//	        revert       withdraw the writes that did not take effect, then revert
//
// The informers show volumes, claims and nodes (objects). volumes.go holds the plugin's only other state, the assumptions: the claims
// that placed pods hold, and the volumes assumed for these claims. This state outlives sessions and configurations, and there is one
// for each set of informers.
//
// Find returns the volumes that a pod's claims would get on a node (session.go, claims.go). Bound claims need a node that reaches
// their volume (reach.go). For other claims it searches the volumes and storage capacities that the session's nodes reach
// (candidate.go, free.go, inventory.go). Pods with equal claims share results (equivalence.go). Assume reserves the volumes in
// memory, so that no two claims get the same volume (assume.go). The pre-bind step sends one write for each claim: it reserves
// the claim's volume, or selects a node, so that a provisioner makes a volume there (write.go). If members share a claim, one of
// them sends the write. Then the step waits until the informers show all claims as bound, or show that a claim can no longer be
// bound (await.go). withdraw.go undoes writes, also after a crash (recover.go). restrictions.go handles volumes that two pods may
// not use at the same time.
//
// Invariants:
//   - A claim, and its volume or storage capacity, is assumed as long as a pod holds the claim. A pod holds its claims until all of
//     them are bound, its placement is reverted, or its rollback has succeeded.
//   - Each write, also a write that undoes another, is conditional on the version of the object that it is based on. Nothing that the
//     volume controller or a provisioner has completed is undone.
//   - A volume that may hold data of a claim is never made free. A volume in phase Available or Pending was not bound to the claim. A
//     Released volume may have been bound, so it stays Released, and an event on the volume says what to do.
package volumebinding
