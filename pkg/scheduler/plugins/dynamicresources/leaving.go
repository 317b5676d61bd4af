// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// leavingOn returns the claims that only pods use that are leaving the node: pods that are being deleted, or that the session has
// evicted. Kubernetes deallocates these claims once the pods are gone. They count as free only for a task that waits for that: no claim
// is written for such a task. For other tasks leavingOn returns nil, and otherwise a slice, if only an empty one. Claims of the
// task itself are not returned.
func (s *session) leavingOn(node *api.NodeInfo, state *taskState, waits bool) []types.UID {
	if !waits {
		return nil
	}
	claims := []types.UID{}
	leaving := map[types.UID]*v1.Pod{}
	for _, task := range node.Tasks {
		if task.Status == api.Releasing && len(task.Pod.Spec.ResourceClaims) > 0 && !tooMany(task.Pod) {
			leaving[task.Pod.UID] = task.Pod
		}
	}
	stays := func(user resourceapi.ResourceClaimConsumerReference) bool { return leaving[user.UID] == nil }
	for _, pod := range leaving {
		for i := range pod.Spec.ResourceClaims {
			claim := s.devices.usedBy(pod, &pod.Spec.ResourceClaims[i])
			switch {
			case claim == nil, len(claim.Status.ReservedFor) == 0, slices.ContainsFunc(claim.Status.ReservedFor, stays), slices.Contains(claims, claim.UID):
			case slices.ContainsFunc(state.claims, func(own podClaim) bool { return own.UID == claim.UID }):
			default:
				claims = append(claims, claim.UID)
			}
		}
	}
	return claims
}

// usedBy returns the claim that the entry of the pod's spec.resourceClaims refers to. It returns nil if there is none, or if placed
// pods hold it.
func (d *devices) usedBy(pod *v1.Pod, named *v1.PodResourceClaim) *resourceapi.ResourceClaim {
	name, _, err := resourceclaim.Name(pod, named)
	if err != nil || name == nil {
		return nil
	}
	claim, err := d.claimNamed(pod.Namespace, *name)
	if err != nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held[claim.UID] != nil {
		return nil
	}
	return claim
}
