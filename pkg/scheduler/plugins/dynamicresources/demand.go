// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"math"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
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

func newMarket(of []*slice, state structured.AllocatedState, features structured.Features) *deviceSupply {
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

// requestsOf returns the devices that the claims request. An error means that the context ended, or that a device class cannot be
// read.
func requestsOf(ctx context.Context, claims []*resourceapi.ResourceClaim, of []*slice, m *deviceSupply, classes classLister, compiled *cel.Cache) (deviceDemand, error) {
	d := deviceDemand{simple: true}
	for i, claim := range claims {
		d.simple = d.simple && len(claim.Spec.Devices.Constraints) == 0
		for j := range claim.Spec.Devices.Requests {
			request := &claim.Spec.Devices.Requests[j]
			choices, err := choicesOf(request, classes)
			if err != nil {
				return d, err
			}
			n, capacity := least(choices), request.Exactly != nil && request.Exactly.Capacity != nil
			suiting, plain, err := suitingAny(ctx, choices, of, m, compiled)
			if err != nil {
				return d, err
			}
			d.simple = d.simple && plain && !capacity && len(choices) == 1 && !choices[0].all
			if choices[0].admin || slices.ContainsFunc(suiting, func(k int) bool { return m.several[k] }) {
				d.simple = false
				continue
			}
			for range n {
				d.units = append(d.units, deviceRequest{i, j, suiting})
			}
		}
	}
	return d, nil
}

// least returns the smallest number of devices with which one of the alternatives in choices is satisfied.
func least(choices []choice) int64 {
	n := int64(math.MaxInt64)
	for _, c := range choices {
		if c.all {
			n = min(n, 1)
		} else {
			n = min(n, c.count)
		}
	}
	return n
}

// suitingAny returns the indexes of the free devices that suit at least one of the alternatives in choices. plain reports whether
// all devices with these indexes are plain (see deviceSupply).
func suitingAny(ctx context.Context, choices []choice, of []*slice, m *deviceSupply, compiled *cel.Cache) (suiting []int, plain bool, err error) {
	plain = true
	keys := make([]selectionKey, len(choices))
	for i := range choices {
		keys[i] = choices[i].key()
	}
	at := 0
	for _, s := range of {
		suitAny := make([]bool, len(s.ids))
		for i := range choices {
			suits, err := s.suiting(ctx, compiled, &choices[i], keys[i])
			if err != nil {
				return nil, false, err
			}
			for k, ok := range suits {
				suitAny[k] = suitAny[k] || ok
			}
		}
		for k, ok := range suitAny {
			if ok && m.free[at+k] {
				suiting = append(suiting, at+k)
				plain = plain && m.plain[at+k]
			}
		}
		at += len(s.ids)
	}
	return suiting, plain, nil
}
