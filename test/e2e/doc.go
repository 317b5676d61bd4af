// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the scheduler as its users run it: as a separate process, with the chart's RBAC, against a real
// control plane with simulated nodes. All specs share the control plane. Each spec has its own namespace, nodes and
// schedulers, which ignore other specs.
package e2e
