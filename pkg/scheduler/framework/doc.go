// SPDX-License-Identifier: Apache-2.0

// Package framework is the API for plugins and actions: the Session, the contract of plugins (contract.go), which adds
// to upstream's extension points, and the registry of plugins and actions by their conf names.
//
// It imports no action and no plugin of this project. Its knowledge of upstream's plugins is limited to three things:
// how long their verdicts on a task stay valid and which labels and annotations these depend on
// (upstreamsignatures.go), which of them report that a queue is full (queuepending.go), and that the kinds of devices
// which deviceshare enables cannot change (registry.go).
//
// It uses binding for the steps of transactions, topology for node groups, upstream where Volcano's sessions and plugins
// need an adaptation, snapshot for the forms of a session's nodes, and devices for the kinds of devices that upstream
// shares among pods.
package framework
