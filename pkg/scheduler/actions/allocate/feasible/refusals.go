// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"errors"
	"slices"
	"strings"

	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	k8snodeaffinity "k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// takeOut removes from the candidates the nodes that an uncached plugin refuses to all tasks of the class, so that the
// plugin is not called again for each task. A node that anti-affinity excludes is removed until a task is taken back. A
// node whose labels or taints exclude the class, or that is cordoned, is removed permanently. refused are the nodes
// that uncached plugins refused for one task, with the filter result.
func (n *CandidateNodes) takeOut(refused map[int32]error) {
	for node, err := range refused {
		switch {
		case forGood(err):
			n.cache.refusedForGood[node] = err
		case hasAntiAffinity(err) && !n.finder.layering.nothingCached:
			if n.keptAway == nil {
				n.keptAway, n.keptAwayOf = map[int32]error{}, n.finder.takenBack
			}
			n.keptAway[node] = err
		default:
			continue
		}
		place, _ := n.set.Place(node)
		n.updatePlace(place)
	}
}

// forgetKeptAway makes the nodes that anti-affinity excluded candidates again, if tasks were taken back after the
// exclusion.
func (n *CandidateNodes) forgetKeptAway() {
	if n.keptAway == nil || n.keptAwayOf == n.finder.takenBack {
		return
	}
	nodes := n.keptAway
	n.keptAway = nil
	for node := range nodes {
		place, _ := n.set.Place(node)
		n.updatePlace(place)
	}
}

// forGood reports whether the predicates plugin refused the node because of its labels, its taints or being cordoned.
// These do not change in a session.
func forGood(err error) bool {
	return refusedBecause(err, func(reason string) bool {
		return reason == k8snodeaffinity.ErrReasonPod || reason == nodeunschedulable.ErrReasonUnschedulable ||
			strings.HasPrefix(reason, "node(s) had untolerated taint {")
	})
}

// hasAntiAffinity reports whether the refusal is due to required anti-affinity. Placing more pods does not resolve such a
// refusal.
func hasAntiAffinity(err error) bool {
	return refusedBecause(err, func(reason string) bool {
		return reason == interpodaffinity.ErrReasonAntiAffinityRulesNotMatch || reason == interpodaffinity.ErrReasonExistingAntiAffinityRulesNotMatch
	})
}

func refusedBecause(err error, of func(reason string) bool) bool {
	var refusal *api.FitError
	return errors.As(err, &refusal) && slices.ContainsFunc(refusal.Status, func(s *api.Status) bool { return of(s.Reason) })
}
