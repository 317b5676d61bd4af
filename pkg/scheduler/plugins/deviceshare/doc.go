// SPDX-License-Identifier: Apache-2.0

// Package deviceshare allocates GPUs, NICs and FPGAs to pods. It replaces upstream's plugin of the same name. It keeps upstream's
// ways of sharing devices (vGPU, gpushare, Ascend) unchanged (upstream.go). It adds Koordinator's way: Device objects describe the
// devices of nodes and the topology of the devices.
//
//	Device object ──► devices (informer) ──► inventory ─┐
//	                                                    ├──► ledger of a node ──► allocator ──► annotation of the pod
//	pods on the session's node, by their annotations ───┘                                          │
//	                                                                         travels in the Binding ▼
//
// The annotation device-allocated is the only record of a pod's devices. Once a session has decided, the annotation is on the pod in
// the scheduler's memory (reserve.go). The API server sets the annotation in the same write that sets the pod's node. So nothing
// needs to be undone when a gang is not bound, and nothing needs to be recovered after a crash. A ledger (ledger.go) records the
// devices in use on a node. It is computed from the session's pods on the node. Later sessions reuse it and update it for changed pods.
//
// The resource sums that limit queues, choose victims and exclude nodes include the devices of Device objects (counter.go).
//
// Package allocator finds devices for one request on one node. Package fragmentation rates the free GPUs that a placement leaves for
// other pods.
package deviceshare
