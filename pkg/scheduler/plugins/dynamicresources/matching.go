// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import "context"

// match assigns to each of the units, which are requested devices, a different device that suits it, preferably the first. given
// are the indexes of the devices. If no such assignment exists, or the context ends, ok is false, and short is the index of a
// unit without a device.
func match(ctx context.Context, units []deviceRequest, devices int) (given []int, short int, ok bool) {
	given, owner, seen := make([]int, len(units)), make([]int, devices), make([]int, devices)
	for i := range owner {
		owner[i] = -1
	}
	for i := range units {
		if ctx.Err() != nil || !assign(units, i, given, owner, seen, i+1) {
			return nil, i, false
		}
	}
	return given, 0, true
}

// assign finds a device for unit i. If all suitable devices have an owner, it tries to find another device for an owner. It marks
// the visited devices in seen with mark.
func assign(units []deviceRequest, i int, given, owner, seen []int, mark int) bool {
	for _, device := range units[i].suiting {
		if owner[device] < 0 {
			given[i], owner[device] = device, i
			return true
		}
	}
	for _, device := range units[i].suiting {
		if seen[device] == mark {
			continue
		}
		seen[device] = mark
		if assign(units, owner[device], given, owner, seen, mark) {
			given[i], owner[device] = device, i
			return true
		}
	}
	return false
}
