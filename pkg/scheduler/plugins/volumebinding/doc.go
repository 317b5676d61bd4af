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
// The informers show volumes, claims and nodes (objects). volumes.go holds the only other state: the assumptions, which
// outlive sessions and configurations. There is one for each set of informers.
//
// Find returns the volumes that a pod's claims would get on a node (session.go, claims.go). Bound claims need a node
// that reaches their volume (reach.go). For others it looks in the volumes and capacities that the session's nodes
// reach (candidate.go, free.go, inventory.go). Pods with equal claims share results (equivalence.go). Assume marks the volumes as
// taken, so that no two pods rely on one (assume.go). The step sends one write for each claim: it reserves the claim's
// volume, or selects the node on which a provisioner makes one (write.go). Members that share a claim send its write
// once. Then the step waits for events of the informers, until these show all claims as bound, or show that one can no
// longer be bound (await.go). withdraw.go undoes writes, also after a crash (recover.go). restrictions.go handles
// volumes that two pods may not use at the same time.
//
// Invariants:
//   - A claim, and its volume or capacity, is assumed as long as a pod holds the claim. A pod holds it until its member
//     is bound or its rollback has succeeded.
//   - Each write, also one that undoes another, is conditional on the version that it was derived from. Nothing that the
//     volume controller or a provisioner completed is undone.
//   - A volume that may hold data of a claim is never made free. The volume controller shows in the phase that a volume
//     is not bound (Available, Pending). A Released volume may have been bound, so it stays Released, and an event on it
//     says what to do.
package volumebinding
