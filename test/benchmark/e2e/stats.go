// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// quantile returns the smallest value that at least the fraction q of the values do not exceed, or zero without
// values.
func quantile[T cmp.Ordered](values []T, q float64) T {
	var zero T
	if len(values) == 0 {
		return zero
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}

// medianOf returns the median of the field over the results. For an even number it is the mean of the two middle
// values.
func medianOf(results []result, field func(result) float64) float64 {
	values := make([]float64, 0, len(results))
	for _, r := range results {
		values = append(values, field(r))
	}
	slices.Sort(values)
	if len(values) == 0 {
		return math.NaN()
	}
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
