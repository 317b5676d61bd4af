// SPDX-License-Identifier: Apache-2.0

// Package devices keeps what upstream's device code (deviceshare: GPUs shared by memory or number, vGPU, Ascend NPUs) does for
// a task within the session that places it.
//
// Upstream writes a pod's devices and its node's lock to the API server as soon as the pod is placed. Here the writes stay in
// the session (client.go, staging.go), travel in the Binding, and are taken back with the placement; ledgers of devices are
// made of the pods on a node whenever those change (ledgers.go); nodes are locked by a pre-bind step (nodelock.go, nodelock_step.go).
package devices
