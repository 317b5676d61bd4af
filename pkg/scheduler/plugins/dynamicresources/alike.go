// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// uncacheable is true of a task whose verdicts depend on what else is placed, and where: with a claim that is not its own alone, or
// that is allocated, or that devices of several nodes would suit. What is placed on a node is all that the verdict on that node
// depends on otherwise.
func (s *session) uncacheable(task *api.TaskInfo) bool {
	if tooMany(task.Pod) {
		return true
	}
	for i := range task.Pod.Spec.ResourceClaims {
		claim, err := s.devices.claimOf(task.Pod, &task.Pod.Spec.ResourceClaims[i])
		if err != nil || claim != nil && (!s.lone(claim) || s.couples(task.Pod.Namespace, claim.ResourceClaim)) {
			return true
		}
	}
	return false
}

// lone is true of a claim of which nothing is known but what it asks for.
func (s *session) lone(claim *podClaim) bool {
	s.devices.mu.Lock()
	defer s.devices.mu.Unlock()
	return claim.own && claim.Status.Allocation == nil && len(claim.Status.ReservedFor) == 0 && s.devices.held[claim.UID] == nil
}

// SignClaim implements framework.ClaimSigner. It tells claims of pods apart: by what they ask for, as far as all that is known of them is that, and else by their names.
func (s *session) SignClaim(pod *v1.Pod, of *v1.PodResourceClaim) string {
	if tooMany(pod) {
		return "named " + of.Name
	}
	claim, err := s.devices.claimOf(pod, of)
	switch {
	case err != nil:
		return "named " + of.Name
	case claim == nil:
		return "none"
	case !s.lone(claim):
		return "named " + claim.Name
	}
	return "like " + keyOf(claim.ResourceClaim)
}

// keyOf is all that a claim asks for.
func keyOf(claim *resourceapi.ResourceClaim) string {
	key, err := claim.Spec.Marshal()
	if err != nil {
		return string(claim.UID)
	}
	return string(key)
}

// couples is true of a claim that a device which several nodes reach would suit: what is placed on one node counts on others. So is
// one for which that takes too long to tell.
func (s *session) couples(namespace string, claim *resourceapi.ResourceClaim) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.list() != nil {
		return true
	}
	shared := s.devices.inventory.forSeveral()
	if len(shared) == 0 {
		return false
	}
	key := keyOf(claim)
	coupled, known := s.coupled[key]
	if known {
		return coupled
	}
	ctx, end, err := s.budgets.begin(namespace, s.filterTimeout)
	if err != nil {
		return true
	}
	defer end()
	if s.devices.catalog.compileAll(ctx, []*resourceapi.ResourceClaim{claim}) != nil {
		return true
	}
	s.coupled[key] = slices.ContainsFunc(shared, func(one *slice) bool {
		suits, err := s.devices.catalog.suitsAny(ctx, one, []*resourceapi.ResourceClaim{claim})
		return suits || err != nil
	})
	return s.coupled[key]
}
