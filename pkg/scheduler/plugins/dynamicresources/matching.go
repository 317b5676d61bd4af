// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import "context"

// match assigns a different suitable device to each requested device in units. given are the indexes of the assigned devices. ok
// is false if no such assignment exists, or the context ends. Then short is the index of a unit without a device.
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

// assign assigns a device to units[i], a requested device, and reports whether it found one. If other units own all suitable
// devices, it tries to assign another device to one of these units. For each visited device it sets the entry in seen to mark, so
// that it visits no device twice.
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
