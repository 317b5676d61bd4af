// SPDX-License-Identifier: Apache-2.0

package quarantine

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Upstream uses the int64 values of quantities: memory in bytes, all other resources in thousandths. Beyond the range
// of an int64 the result is arbitrary: 1e30 cpu count as 0, and 8Ei as -1. So larger amounts are limited to these
// values, which are larger than any cluster.
const (
	mostMemory = 8e18
	mostOfAll  = 8e15
)

// most returns the largest amount of the resource that is allowed in each of the given number of parts. The sum of the
// parts does not overflow.
func most(name v1.ResourceName, parts int) *resource.Quantity {
	limit := int64(mostOfAll)
	if name == v1.ResourceMemory {
		limit = mostMemory
	}
	return resource.NewQuantity(limit/int64(parts), resource.DecimalSI)
}

// negative returns a text for users for each resource in the list with a negative amount. The text names the field.
func negative(field string, list v1.ResourceList) (wrong []string) {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if q := list[name]; q.Sign() < 0 {
			wrong = append(wrong, fmt.Sprintf("%s[%s] is %s, must be 0 or more", field, name, q.String()))
		}
	}
	return wrong
}

// isWithinLimits reports whether all amounts in the lists are at least 0 and at most the limit of their resource.
func isWithinLimits(lists ...v1.ResourceList) bool {
	for _, list := range lists {
		for name, q := range list {
			if q.Sign() < 0 || q.Cmp(*most(name, 1)) > 0 {
				return false
			}
		}
	}
	return true
}

// withinLimits returns the list with each amount limited to between 0 and the result of the function most. If no amount
// changes, it returns the list itself. parts is the number of amounts that are added up.
func withinLimits(list v1.ResourceList, parts int) v1.ResourceList {
	own := false
	set := func(name v1.ResourceName, q resource.Quantity) {
		if !own {
			list, own = maps.Clone(list), true
		}
		list[name] = q
	}
	for name, q := range list {
		if q.Sign() < 0 {
			set(name, resource.Quantity{})
		} else if limit := most(name, parts); q.Cmp(*limit) > 0 {
			set(name, *limit)
		}
	}
	return list
}
