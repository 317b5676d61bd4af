// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// uncacheable reports whether the filter results for a task cannot be cached, because placements on other nodes may change them.
// This is the case if a claim of the task is shared or allocated, or if a device that several nodes reach suits a claim. In all
// other cases, only placements on the same node change the result for a node.
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

// unshared reports whether the claim was generated for its pod, is neither allocated nor reserved nor held by a placed pod, and has
// no write of a former leader. Then only the claim's spec decides which nodes fit the claim.
func (s *session) unshared(claim *podClaim) bool {
	if s.devices.unrecovered.Check(nameOf(claim.ResourceClaim)) != nil {
		return false
	}
	s.devices.mu.Lock()
	defer s.devices.mu.Unlock()
	return claim.own && claim.Status.Allocation == nil && len(claim.Status.ReservedFor) == 0 && s.devices.held[claim.UID] == nil
}

// SignClaim implements framework.Signer: it returns a key for a claim of the pod. Claims that were generated for their pods, and
// are not allocated or reserved yet, have equal keys if their specs are equal. The key of any other claim is made from the claim's
// name.
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

// claimSignature returns a key that is equal for claims with equal specs.
func claimSignature(claim *resourceapi.ResourceClaim) string {
	key, err := claim.Spec.Marshal()
	if err != nil {
		return string(claim.UID)
	}
	return string(key)
}

// couples reports whether a device that several nodes reach suits the claim. In that case a placement on one node changes which
// other nodes fit. couples also returns true if the check fails or takes too long.
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
	ctx, end, err := s.budgets.Begin(namespace, s.filterTimeout)
	if err != nil {
		return true
	}
	defer end()
	needs, err := s.devices.catalog.needsOf([]*resourceapi.ResourceClaim{claim})
	compiled := s.devices.catalog.compiled
	if err != nil || compiled.compileAll(ctx, needs) != nil {
		return true
	}
	s.coupled[key] = slices.ContainsFunc(shared, func(one *slice) bool {
		suits, err := one.suitsAny(ctx, compiled, needs)
		return suits || err != nil
	})
	return s.coupled[key]
}
