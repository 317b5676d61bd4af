// SPDX-License-Identifier: Apache-2.0

// Package quantity formats amounts of resources for messages. It imports no other package of this project.
package quantity

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Of formats the amount of a resource in the units that users write. Upstream counts memory in bytes, pods by number,
// and all other resources in thousandths.
func Of(name v1.ResourceName, amount float64) string {
	switch name {
	case v1.ResourceMemory:
		return resource.NewQuantity(int64(amount), resource.BinarySI).String()
	case v1.ResourcePods:
		return resource.NewQuantity(int64(amount), resource.DecimalSI).String()
	default:
		return resource.NewMilliQuantity(int64(amount), resource.DecimalSI).String()
	}
}
