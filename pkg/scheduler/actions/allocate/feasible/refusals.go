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

// takeOut takes out, of the nodes that an uncached plugin refused for a task, those that it refuses to all tasks of the class: for
// good, or until a task is taken back. They need not be asked about for each of them.
func (n *CandidateNodes) takeOut(refused map[int32]error) {
	for node, err := range refused {
		switch {
		case forGood(err):
			n.cache.refusedForGood[node] = err
		case keepsAway(err) && !n.finder.layering.nothingCached:
			if n.keptAway == nil {
				n.keptAway, n.keptAwayOf = map[int32]error{}, n.finder.takenBack
			}
			n.keptAway[node] = err
		default:
			continue
		}
		place, _ := n.set.Place(node)
		n.look(place)
	}
}

// forgetKeptAway lets tasks in again from which pods were kept away that are gone.
func (n *CandidateNodes) forgetKeptAway() {
	if n.keptAway == nil || n.keptAwayOf == n.finder.takenBack {
		return
	}
	nodes := n.keptAway
	n.keptAway = nil
	for node := range nodes {
		place, _ := n.set.Place(node)
		n.look(place)
	}
}

// forGood is true of a refusal by the predicates plugin that is by the node's own labels, taints or being cordoned, which do
// not change in a session.
func forGood(err error) bool {
	return refusedBecause(err, func(reason string) bool {
		return reason == k8snodeaffinity.ErrReasonPod || reason == nodeunschedulable.ErrReasonUnschedulable ||
			strings.HasPrefix(reason, "node(s) had untolerated taint {")
	})
}

// keepsAway is true of a refusal by anti-affinity, which no further pod undoes.
func keepsAway(err error) bool {
	return refusedBecause(err, func(reason string) bool {
		return reason == interpodaffinity.ErrReasonAntiAffinityRulesNotMatch || reason == interpodaffinity.ErrReasonExistingAntiAffinityRulesNotMatch
	})
}

func refusedBecause(err error, of func(reason string) bool) bool {
	var refusal *api.FitError
	return errors.As(err, &refusal) && slices.ContainsFunc(refusal.Status, func(s *api.Status) bool { return of(s.Reason) })
}
