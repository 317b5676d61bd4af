// SPDX-License-Identifier: Apache-2.0

package setaside

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Upstream reckons with the int64 values of quantities: of memory in bytes, of all else in thousandths. Beyond the range
// of an int64 they are not the largest one but anything: 1e30 cpu count as 0, and 8Ei as -1. What is larger than most
// counts as most, which no cluster has.
const (
	mostMemory = 8e18
	mostOfAll  = 8e15
)

// most is the limit for each of several amounts that are added up.
func most(name v1.ResourceName, parts int) *resource.Quantity {
	limit := int64(mostOfAll)
	if name == v1.ResourceMemory {
		limit = mostMemory
	}
	return resource.NewQuantity(limit/int64(parts), resource.DecimalSI)
}

// negative lists what of the resources is negative, as people are told it, by the field they stand in.
func negative(field string, list v1.ResourceList) (wrong []string) {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if q := list[name]; q.Sign() < 0 {
			wrong = append(wrong, fmt.Sprintf("%s[%s] is %s, it must be 0 or more", field, name, q.String()))
		}
	}
	return wrong
}

// reckonable is true if none of the resources is below 0 or above most.
func reckonable(lists ...v1.ResourceList) bool {
	for _, list := range lists {
		for name, q := range list {
			if q.Sign() < 0 || q.Cmp(*most(name, 1)) > 0 {
				return false
			}
		}
	}
	return true
}

// withinReckoning returns the resources with none below 0 or above most; the list itself when there is none such. It is
// one of so many parts that are added up.
func withinReckoning(list v1.ResourceList, parts int) v1.ResourceList {
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
