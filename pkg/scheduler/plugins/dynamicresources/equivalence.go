// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// uncacheable reports whether the verdicts on a task depend on placements on other nodes. They do if one of its claims
// is shared or allocated, or if devices that several nodes reach would suit it. Otherwise the verdict on a node depends
// only on the placements there.
func (s *session) uncacheable(task *api.TaskInfo) bool {
	if tooMany(task.Pod) {
		return true
	}
	for i := range task.Pod.Spec.ResourceClaims {
		claim, err := s.devices.claimOf(task.Pod, &task.Pod.Spec.ResourceClaims[i])
		if err != nil || claim != nil && (!s.unshared(claim) || s.couples(task.Pod.Namespace, claim.ResourceClaim)) {
			return true
		}
	}
	return false
}

// unshared reports whether the claim belongs to one pod and has no state yet, so that only its spec matters.
func (s *session) unshared(claim *podClaim) bool {
	s.devices.mu.Lock()
	defer s.devices.mu.Unlock()
	return claim.own && claim.Status.Allocation == nil && len(claim.Status.ReservedFor) == 0 && s.devices.held[claim.UID] == nil
}

// SignClaim implements framework.Signer. Claims without state are equal if their specs are; all others are
// distinguished by name.
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
	case !s.unshared(claim):
		return "named " + claim.Name
	}
	return "like " + claimSignature(claim.ResourceClaim)
}

// claimSignature returns a key of the claim's spec.
func claimSignature(claim *resourceapi.ResourceClaim) string {
	key, err := claim.Spec.Marshal()
	if err != nil {
		return string(claim.UID)
	}
	return string(key)
}

// couples reports whether a device that several nodes reach would suit the claim, so that placements on one node affect
// others. It also returns true if the check takes too long.
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
	key := claimSignature(claim)
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
