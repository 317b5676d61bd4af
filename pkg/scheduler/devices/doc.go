// SPDX-License-Identifier: Apache-2.0

// Package devices confines the effects of upstream's device code (deviceshare: GPUs shared by memory or number, vGPU,
// Ascend NPUs) to the session that places a task.
//
// Upstream writes a pod's devices and its node's lock to the API server as soon as the pod is placed. Here the writes
// stay in the session (client.go, staging.go), are written with the Binding, and are undone with the placement. Ledgers
// of devices are rebuilt from the pods on a node whenever these change (ledgers.go). Nodes are locked by a pre-bind
// step (nodelock.go, nodelock_step.go).
package devices
