// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"errors"
	"fmt"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// podClaim is a ResourceClaim that a pod uses.
type podClaim struct {
	*resourceapi.ResourceClaim
	// own reports whether the claim was generated for the pod from a template.
	own bool
}

// mostClaims is the maximum number of claims of one pod. The API server accepts thousands of claims, but the plugin checks all
// claims for each node.
const mostClaims = 128

func tooMany(pod *v1.Pod) bool { return len(pod.Spec.ResourceClaims) > mostClaims }

// claimsOf returns the pod's claims without duplicates. The error says why the pod cannot be placed now.
func (d *devices) claimsOf(pod *v1.Pod) ([]podClaim, error) {
	if tooMany(pod) {
		return nil, fmt.Errorf("spec.resourceClaims has %d claims, must have at most %d", len(pod.Spec.ResourceClaims), mostClaims)
	}
	var claims []podClaim
	for i := range pod.Spec.ResourceClaims {
		claim, err := d.claimOf(pod, &pod.Spec.ResourceClaims[i])
		if err != nil {
			return nil, err
		}
		if claim != nil && !slices.ContainsFunc(claims, func(other podClaim) bool { return other.UID == claim.UID }) {
			claims = append(claims, *claim)
		}
	}
	return claims, nil
}

// claimOf returns the claim that an entry of the pod's spec.resourceClaims refers to. It returns nil if the entry's template needs
// no claim for this pod.
func (d *devices) claimOf(pod *v1.Pod, named *v1.PodResourceClaim) (*podClaim, error) {
	name, own, err := resourceclaim.Name(pod, named)
	switch {
	case errors.Is(err, resourceclaim.ErrClaimNotFound):
		return nil, fmt.Errorf("claim %s of the pod has not been created from template %s yet", brief.Value(named.Name), brief.Value(*named.ResourceClaimTemplateName))
	case err != nil:
		return nil, fmt.Errorf("claim %s of the pod: %w", brief.Value(named.Name), err)
	case name == nil:
		return nil, nil
	}
	claim, err := d.claimNamed(pod.Namespace, *name)
	switch {
	case errors.Is(err, assumecache.ErrNotFound):
		return nil, fmt.Errorf("claim %s does not exist", brief.Value(*name))
	case err != nil:
		return nil, fmt.Errorf("reading claim %s: %w", brief.Value(*name), err)
	case claim.DeletionTimestamp != nil:
		return nil, fmt.Errorf("claim %s is being deleted", brief.Value(*name))
	}
	if own {
		if err := resourceclaim.IsForPod(pod, claim); err != nil {
			return nil, fmt.Errorf("claim %s was created for another pod", brief.Value(*name))
		}
	}
	return &podClaim{claim, own}, nil
}

// check returns an error if an unallocated claim fits no node, for example because its device class does not exist. It also limits
// the numbers of requested devices, because a tenant may request any number.
func (c *catalog) check(claim *resourceapi.ResourceClaim) error {
	var sum int64
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		if err := c.checkRequest(claim, request); err != nil {
			return err
		}
		n := least(request)
		if n > resourceapi.AllocationResultsMaxSize {
			return fmt.Errorf("%s: requests %d devices, must be at most %d for each claim", describe(claim, request), n, resourceapi.AllocationResultsMaxSize)
		}
		sum += n
	}
	if sum > resourceapi.AllocationResultsMaxSize {
		return fmt.Errorf("claim %s: requests %d devices, must be at most %d", brief.Value(claim.Name), sum, resourceapi.AllocationResultsMaxSize)
	}
	return nil
}

func (c *catalog) checkRequest(claim *resourceapi.ResourceClaim, request *resourceapi.DeviceRequest) error {
	choices := alternatives(request)
	switch {
	case len(choices) == 0:
		return fmt.Errorf("%s: the request has neither exactly nor firstAvailable", describe(claim, request))
	case request.Exactly == nil && !c.features.PrioritizedList:
		return needsGate(claim, request, "a prioritized list", "DRAPrioritizedList")
	case request.Exactly != nil && request.Exactly.AdminAccess != nil && !c.features.AdminAccess:
		return needsGate(claim, request, "administrative access", "DRAAdminAccess")
	case !c.features.ConsumableCapacity && slices.ContainsFunc(choices, hasCapacity):
		return needsGate(claim, request, "consumable capacity", "DRAConsumableCapacity")
	}
	for i := range choices {
		if _, err := c.classes.Get(choices[i].DeviceClassName); apierrors.IsNotFound(err) {
			return fmt.Errorf("%s: device class %s does not exist", describe(claim, request), brief.Value(choices[i].DeviceClassName))
		}
	}
	return nil
}

func needsGate(claim *resourceapi.ResourceClaim, request *resourceapi.DeviceRequest, what, gate string) error {
	return fmt.Errorf("%s: %s requires feature gate %s, which is disabled in the scheduler", describe(claim, request), what, gate)
}

// alternatives returns the alternatives of the request, the preferred alternative first. A request without alternatives is its
// only alternative.
func alternatives(request *resourceapi.DeviceRequest) []resourceapi.DeviceSubRequest {
	exactly := request.Exactly
	if exactly == nil {
		return request.FirstAvailable
	}
	return []resourceapi.DeviceSubRequest{{
		DeviceClassName: exactly.DeviceClassName, Selectors: exactly.Selectors, AllocationMode: exactly.AllocationMode, Count: exactly.Count, Capacity: exactly.Capacity,
	}}
}

func isAll(of resourceapi.DeviceSubRequest) bool {
	return of.AllocationMode == resourceapi.DeviceAllocationModeAll
}

func hasCapacity(of resourceapi.DeviceSubRequest) bool { return of.Capacity != nil }

// least returns the smallest number of devices with which one of the request's alternatives is satisfied.
func least(request *resourceapi.DeviceRequest) int64 {
	n := int64(math.MaxInt64)
	for _, one := range alternatives(request) {
		if isAll(one) {
			one.Count = 1
		}
		n = min(n, one.Count)
	}
	return n
}

// wantsAll reports whether a request of the claims, or an alternative of a request, has the allocation mode All.
func wantsAll(claims []*resourceapi.ResourceClaim) bool {
	return slices.ContainsFunc(claims, func(claim *resourceapi.ResourceClaim) bool {
		return slices.ContainsFunc(claim.Spec.Devices.Requests, func(request resourceapi.DeviceRequest) bool {
			return slices.ContainsFunc(alternatives(&request), isAll)
		})
	})
}

// describe names the claim, its request and the request's device class, for messages. If the request has alternatives, it names
// the device class of the first alternative.
func describe(claim *resourceapi.ResourceClaim, request *resourceapi.DeviceRequest) string {
	class := ""
	if choices := alternatives(request); len(choices) > 0 {
		class = choices[0].DeviceClassName
	}
	return fmt.Sprintf("claim %s (request %s, class %s)", brief.Value(claim.Name), brief.Value(request.Name), brief.Value(class))
}

// describeFirst names the claim and the first request of the claim, for messages.
func describeFirst(claim *resourceapi.ResourceClaim) string {
	if len(claim.Spec.Devices.Requests) == 0 {
		return fmt.Sprintf("claim %s (no requests)", brief.Value(claim.Name))
	}
	return describe(claim, &claim.Spec.Devices.Requests[0])
}
