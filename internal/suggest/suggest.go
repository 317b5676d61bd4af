// SPDX-License-Identifier: Apache-2.0

// Package suggest finds the valid name that is nearest to a mistyped name.
package suggest

import (
	"slices"
	"strings"
)

// longest is how many bytes of a mistyped name are compared. Valid names are shorter than longest.
const longest = 100

// Nearest returns the known name that needs the fewest edits to become name, ignoring case. If several names need
// equally few, it returns the first in alphabetical order. It returns "" if more than half of the name would change.
func Nearest(name string, known []string) string {
	name = name[:min(len(name), longest)]
	best, fewest := "", 0
	for _, candidate := range slices.Sorted(slices.Values(known)) {
		d := distance(strings.ToLower(name), strings.ToLower(candidate))
		if d <= max(len(name), len(candidate))/2 && (best == "" || d < fewest) {
			best, fewest = candidate, d
		}
	}
	return best
}

// distance returns the Levenshtein distance of two texts, in bytes. It stores only one row of the table of distances.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
