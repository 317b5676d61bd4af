// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
)

// QueueUse has the amounts of devices that a pod has or may get, one for each resource name that a queue's capability may
// limit. GPUs under a vendor's name are in hundredths, like all other amounts except bytes of memory.
type QueueUse [numQueueNames]int64

const numQueueNames = 9

// queueNames are the resource names in the order of a QueueUse. unit is the factor from a quantity of the resource to an
// amount in a QueueUse.
var queueNames = [numQueueNames]struct {
	name v1.ResourceName
	unit float64
}{
	{resourceNames[Core], 1}, {resourceNames[MemoryRatio], 1}, {resourceNames[Memory], 1}, {resourceNames[RDMAShare], 1}, {resourceNames[FPGAShare], 1},
	{wholeGPU, 1}, {nvidiaGPU, 100}, {amdGPU, 100}, {dcuGPU, 100},
}

// firstVendorName is the index in queueNames from which on the names are GPU vendors' names.
const firstVendorName = 6

// QueueLimits returns the limits of devices in a queue's capability. The limit of a name that the capability does not limit
// is the largest number. limited is false if the capability has no limit of devices.
func QueueLimits(capability v1.ResourceList) (limits QueueUse, limited bool) {
	for at, of := range queueNames {
		limits[at] = math.MaxInt64
		if quantity, ok := capability[of.name]; ok {
			limits[at], limited = unitsOf(quantity, of.unit), true
		}
	}
	return limits, limited
}

func unitsOf(quantity resource.Quantity, unit float64) int64 {
	return int64(min(max(quantity.AsApproximateFloat64()*unit, 0), math.MaxInt64/2))
}

// Exceeded returns the name of the first limit that u, or the sum of u and more, exceeds; empty if none is exceeded. If
// more is 0 under a name, only u is compared with its limit.
func (u QueueUse) Exceeded(limits, more QueueUse) v1.ResourceName {
	for at, limit := range limits {
		if u[at] > limit || more[at] > 0 && u[at]+more[at] > limit {
			return queueNames[at].name
		}
	}
	return ""
}

// Add returns the sum of u and other, for each name.
func (u QueueUse) Add(other QueueUse) QueueUse {
	for at := range u {
		u[at] += other[at]
	}
	return u
}

// Sub returns u minus other, for each name.
func (u QueueUse) Sub(other QueueUse) QueueUse {
	for at := range u {
		u[at] -= other[at]
	}
	return u
}

// QueueUse returns how a pod with the request that has these amounts counts under each name that a queue may limit. GPUs
// that are not requested by a vendor's name count under all vendors' names.
func (r *Request) QueueUse(amounts Amounts) QueueUse {
	gpus := max(amounts[Core], amounts[MemoryRatio])
	use := QueueUse{amounts[Core], amounts[MemoryRatio], amounts[Memory], amounts[RDMAShare], amounts[FPGAShare], gpus}
	for at := firstVendorName; at < numQueueNames; at++ {
		if r.vendor == "" || r.vendor == queueNames[at].name {
			use[at] = gpus
		}
	}
	return use
}

// Least returns the total amounts that a pod with the request gets on any node, as far as they do not depend on the node.
func (r *Request) Least() (sum Amounts) {
	for t := range r.of {
		for at, amount := range r.of[t].amounts {
			sum[at] += times(amount, r.of[t].count)
		}
	}
	return sum
}

// Most returns the largest total amounts that a pod with the request can get on a node with this inventory, including
// devices in use. It returns false if the node could not serve the request.
func (i *Inventory) Most(r *Request) (sum Amounts, ok bool) {
	for t := range r.of {
		want := &r.of[t]
		if !want.asked() {
			continue
		}
		var largest Amounts
		matching := 0
		for at := range i.Devices[t] {
			d := &i.Devices[t][at]
			if !d.Healthy || want.selector != nil && !want.selector.Matches(labels.Set(d.Labels)) {
				continue
			}
			if amounts, can := fill(want.amounts, Type(t), d); can {
				largest = largest.Max(amounts)
				matching++
			}
		}
		if matching == 0 || matching < want.count {
			return sum, false
		}
		for at, amount := range largest {
			sum[at] += times(amount, i.mostDevices(r, Type(t), matching))
		}
	}
	return sum, true
}

// mostDevices returns the largest number of devices of the type that a pod with the request can get. matching is the number
// of suitable devices on the node. A secondary of joint types can have one device on each PCIe root of the primary's
// devices.
func (i *Inventory) mostDevices(r *Request, t Type, matching int) int {
	want := &r.of[t]
	if want.all {
		return matching
	}
	primary := t
	if slices.Contains(r.joint, t) {
		if primary = r.joint[0]; slices.Contains(r.joint, GPU) && (r.partition.asked || i.Partitions != nil) {
			primary = GPU
		}
	}
	if t == primary {
		return want.count
	}
	if of := &r.of[primary]; !of.all {
		return min(max(want.count, of.count), matching)
	}
	return matching
}

// SumOf returns the total amounts of the allocation, with memory both in bytes and as a ratio if the allocation has
// only one of the two.
func (i *Inventory) SumOf(a *Allocation) (sum Amounts) {
	if a == nil {
		return sum
	}
	for t := range a {
		for at := range a[t] {
			amounts := a[t][at].Amounts
			if d := i.Device(Type(t), a[t][at].Minor); d != nil {
				amounts = d.usedBy(Type(t), amounts)
			}
			sum = sum.Add(amounts)
		}
	}
	return sum
}
