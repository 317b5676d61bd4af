// SPDX-License-Identifier: Apache-2.0

// Package nodeorder scores nodes. It replaces upstream's plugin of the same name. It takes the same arguments and
// gives every task and node the same score, in a small part of the time.
//
// Upstream's plugin calls Kubernetes' scoring plugins for each pair of task and node. These add up the pod's requests
// each time. This package computes values that depend only on the pod once (pod.go). It computes the score of a
// single node from the sums of the requests on the node (node.go). It computes scores that compare nodes from all
// candidates (batch.go, spread.go).
//
// In rare cases, the package calls upstream's own plugin, which it builds at its first use: for pods with
// preferred pod affinity, pods that such pods prefer or avoid (affinity.go), and pods with soft spread constraints of
// their own.
//
// Upstream calls Kubernetes' plugins differently from kube-scheduler. To get equal scores, the package has the same
// effects:
//
//   - Pod-level resources count for pods on nodes, but not for the pod to be placed.
//   - Node affinity is not normalized.
//   - Candidates have no pods when spread is scored, so pods are spread over zones only, not over hosts.
//   - Nodes that got their first pod with affinity in this session do not count as nodes with such pods.
package nodeorder
