// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the scheduler as its users meet it: as a process of its own, under the chart's RBAC, against a real
// control plane with simulated nodes. All specs share the control plane; each has a namespace, nodes and
// schedulers of its own, which care for no other's.
package e2e
