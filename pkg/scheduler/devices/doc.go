// SPDX-License-Identifier: Apache-2.0

// Package devices confines the effects of upstream's device code (deviceshare: GPUs shared by memory or number, vGPU,
// Ascend NPUs) to the session that places a task.
//
// Upstream writes a pod's devices and its node's lock to the API server as soon as the pod is placed. Here these
// changes stay in the session (client.go, staging.go). They are written with the Binding, or undone with the placement.
// For each kind of devices, a node has a ledger: upstream's record of the node's devices and of the pods that have
// them. The ledgers are rebuilt whenever the pods on the node change (ledgers.go). A pre-bind step locks nodes
// (nodelock.go, nodelock_step.go).
package devices
