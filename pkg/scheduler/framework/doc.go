// SPDX-License-Identifier: Apache-2.0

// Package framework is what plugins and actions are written against: the Session, the contract of plugins (contract.go), which
// adds to upstream's extension points, and the registry that makes plugins known under their conf names.
//
// It knows no action and no plugin of this project, and imports none. What it knows of upstream's plugins is how long their
// verdicts on a task stay true and which labels and annotations these depend on (upstreaminputs.go), which of them say that a
// queue is full (queuewait.go), and that the kinds of devices which deviceshare switches on stay so (registry.go). Below it are
// binding, for the transactions' steps, topology, for node groups, snapshot, for what upstream is not shown while it opens a
// session, and devices, which knows the vendors' kinds.
package framework
