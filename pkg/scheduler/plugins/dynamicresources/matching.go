// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import "context"

// match assigns to each request a different device that suits it, preferably its first one. If that is impossible, or the
// context ends, ok is false, and short is a request without a device.
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

// assign finds a device for the request, possibly one whose owner can take another. It marks visited devices as seen.
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
