// SPDX-License-Identifier: Apache-2.0

package dynamicresources

// match gives each unit a device that suits it, no device to two; the first of its devices as long as the others can do without.
// Where that cannot be, ok is false and short is a unit for which there is none.
func match(units []unit, devices int) (given []int, short int, ok bool) {
	given, owner := make([]int, len(units)), make([]int, devices)
	for i := range owner {
		owner[i] = -1
	}
	for i := range units {
		seen := make([]bool, devices)
		if !give(units, i, given, owner, seen) {
			return nil, i, false
		}
	}
	return given, 0, true
}

// give finds a device for the unit, if need be one whose owner can take another.
func give(units []unit, i int, given, owner []int, seen []bool) bool {
	for _, device := range units[i].suiting {
		if owner[device] < 0 {
			given[i], owner[device] = device, i
			return true
		}
	}
	for _, device := range units[i].suiting {
		if seen[device] {
			continue
		}
		seen[device] = true
		if give(units, owner[device], given, owner, seen) {
			given[i], owner[device] = device, i
			return true
		}
	}
	return false
}
