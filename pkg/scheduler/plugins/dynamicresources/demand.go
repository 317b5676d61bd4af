// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// Kubernetes' allocator searches by trial and error. If many claims need devices and one device is missing, the search takes
// exponential time. So this file first computes a matching of requested devices with available devices, which is fast. If no
// matching exists, no allocation exists either. For most claims a matching is also sufficient, and determines which devices the
// allocator takes.

// deviceRequest is one requested device. claim is the index of the claim, and request the index of the request in the claim.
// suiting are the indexes in deviceSupply.devices of the devices that suit the request.
type deviceRequest struct {
	claim, request int
	suiting        []int
}

// deviceSupply holds the devices among which a search on a node selects, free or not.
type deviceSupply struct {
	devices []structured.DeviceID
	free    []bool
	// several reports for each device whether several claims may use the device at the same time (KEP-5075).
	several []bool
	// plain reports for each device whether any claim can have the device if it is free and the claim's selectors accept it. A
	// device that is shared, partitioned or tainted, or has binding conditions, is not plain.
	plain []bool
}

// deviceDemand is the set of devices that claims request from a deviceSupply.
type deviceDemand struct {
	units []deviceRequest
	// simple reports whether a matching of requested devices with free devices suffices to find an allocation. Then no claim has
	// constraints, and all suitable devices are plain. No request has alternatives, a capacity or administrative access, or asks
	// for all devices.
	simple bool
}

func newSupply(of []*slice, state structured.AllocatedState, features structured.Features) *deviceSupply {
	m := &deviceSupply{}
	for _, s := range of {
		for i, id := range s.ids {
			device := &s.Spec.Devices[i]
			m.devices = append(m.devices, id)
			m.free = append(m.free, !state.AllocatedDevices.Has(id))
			m.several = append(m.several, features.ConsumableCapacity && ptr.Deref(device.AllowMultipleAllocations, false))
			m.plain = append(m.plain, isPlain(s, device, features))
		}
	}
	return m
}

func isPlain(s *slice, device *resourceapi.Device, features structured.Features) bool {
	return !ptr.Deref(s.Spec.PerDeviceNodeSelection, false) && !ptr.Deref(device.AllowMultipleAllocations, false) &&
		len(device.ConsumesCounters) == 0 && len(device.BindingConditions) == 0 && !(features.DeviceTaints && len(device.Taints) > 0)
}

// demandOn returns the devices that the claims request from the supply. An error means that the context ended.
func (s *search) demandOn(m *deviceSupply, claims []*resourceapi.ResourceClaim) (deviceDemand, error) {
	d := deviceDemand{simple: !slices.ContainsFunc(claims, func(claim *resourceapi.ResourceClaim) bool { return len(claim.Spec.Devices.Constraints) > 0 })}
	for _, n := range s.needs {
		suiting, plain, err := s.suiting(n.choices, m)
		if err != nil {
			return d, err
		}
		first, request := n.choices[0].DeviceSubRequest, &claims[n.claim].Spec.Devices.Requests[n.request]
		d.simple = d.simple && plain && len(n.choices) == 1 && !isAll(first) && !hasCapacity(first)
		if hasAdminAccess(request) || slices.ContainsFunc(suiting, func(k int) bool { return m.several[k] }) {
			d.simple = false
			continue
		}
		for range least(request) {
			d.units = append(d.units, deviceRequest{n.claim, n.request, suiting})
		}
	}
	return d, nil
}

func hasAdminAccess(request *resourceapi.DeviceRequest) bool {
	return request.Exactly != nil && ptr.Deref(request.Exactly.AdminAccess, false)
}

// suiting returns the indexes of the free devices that suit at least one of the choices. plain reports whether all devices with
// these indexes are plain (see deviceSupply).
func (s *search) suiting(choices []choice, m *deviceSupply) (suiting []int, plain bool, err error) {
	at := 0
	plain = true
	for _, one := range s.offered {
		suits, err := one.suitingAny(s.ctx, s.catalog.compiled.Cache, choices)
		if err != nil {
			return nil, false, err
		}
		for k, ok := range suits {
			if ok && m.free[at+k] {
				suiting = append(suiting, at+k)
				plain = plain && m.plain[at+k]
			}
		}
		at += len(suits)
	}
	return suiting, plain, nil
}
