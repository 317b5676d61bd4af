// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
)

// QueueUse has the amounts of devices that a pod has or may get, one amount for each resource name that a queue's
// capability may limit. GPUs under a vendor's name are in hundredths, like all other amounts except bytes of memory.
type QueueUse [numQueueNames]int64

const numQueueNames = 12

// queueNames are the resource names that a queue's capability may limit, in the order of a QueueUse. The first ones are
// the resources of devices, in the order of Amounts. An amount in a QueueUse is the quantity of the resource times unit.
var queueNames = [numQueueNames]struct {
	name v1.ResourceName
	unit float64
}{
	{resourceNames[Core], 1}, {resourceNames[MemoryRatio], 1}, {resourceNames[Memory], 1}, {resourceNames[RDMAShare], 1}, {resourceNames[FPGAShare], 1},
	{resourceNames[NPUCore], 1}, {resourceNames[NPUCPU], 1}, {resourceNames[NPUDVPP], 1},
	{wholeGPU, 1}, {nvidiaGPU, 100}, {amdGPU, 100}, {dcuGPU, 100},
}

// firstVendorName is the index of the first GPU vendor's name in queueNames. All later names are vendors' names too.
const firstVendorName = int(numResources) + 1

// QueueLimits returns the limits of devices in a queue's capability. A name that the capability does not limit has the
// largest number as its limit. limited is false if the capability has no limit of devices.
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

// Exceeded returns the resource name of the first limit that u, or the sum of u and more, exceeds; empty if no limit is
// exceeded. If more is 0 for a name, Exceeded compares only u with the limit of that name.
func (u QueueUse) Exceeded(limits, more QueueUse) v1.ResourceName {
	for at, limit := range limits {
		if u[at] > limit || more[at] > 0 && u[at]+more[at] > limit {
			return queueNames[at].name
		}
	}
	return ""
}

// Add returns the sum of u and other, for each resource name.
func (u QueueUse) Add(other QueueUse) QueueUse {
	for at := range u {
		u[at] += other[at]
	}
	return u
}

// Sub returns u minus other, for each resource name.
func (u QueueUse) Sub(other QueueUse) QueueUse {
	for at := range u {
		u[at] -= other[at]
	}
	return u
}

// QueueUse returns how much a pod counts against each resource name that a queue may limit, if the pod has this request
// and gets these amounts. GPUs that are not requested by a vendor's name count under all vendors' names.
func (r *Request) QueueUse(amounts Amounts) QueueUse {
	gpus := max(amounts[Core], amounts[MemoryRatio])
	use := QueueUse{numResources: gpus}
	copy(use[:], amounts[:])
	for at := firstVendorName; at < numQueueNames; at++ {
		if r.vendor == "" || r.vendor == queueNames[at].name {
			use[at] = gpus
		}
	}
	return use
}

// WithNPUs completes the amounts that a pod with the request gets. An NPU counts under several resource names: cores,
// CPUs and DVPP units of NPUs, and cores of GPUs. For each name that the pod does not request, WithNPUs adds the same
// fraction of the total, rounded up, as the pod gets under the name that it requests. whole has the total amounts of the
// devices. A share by template gets no more CPUs and DVPP units than its template has, and GPUs that are requested by a
// vendor's name are not NPUs.
func (r *Request) WithNPUs(amounts, whole Amounts) Amounts {
	part := func(of, as Resource) int64 {
		if whole[of] == 0 {
			return 0
		}
		return int64(math.Ceil(float64(min(amounts[of], whole[of])) * float64(whole[as]) / float64(whole[of]))) // the product may exceed an int64
	}
	if amounts[Core] == 0 {
		amounts[Core] = part(NPUCore, Core)
	}
	if r.templated || r.vendor != "" {
		return amounts
	}
	for _, npu := range []Resource{NPUCore, NPUCPU, NPUDVPP} {
		if amounts[npu] == 0 {
			amounts[npu] = max(part(Core, npu), part(MemoryRatio, npu))
		}
	}
	return amounts
}

// Least returns the total amounts that a pod with the request gets on every node. It leaves out amounts that depend on
// the node.
func (r *Request) Least() (sum Amounts) {
	for t := range r.of {
		for at, amount := range r.of[t].amounts {
			sum[at] += times(amount, r.of[t].count)
		}
	}
	return sum
}

// Most returns the largest total amounts that a pod with the request can get on a node with this inventory. Devices in
// use count too. Most returns false if the node could not serve the request.
func (i *Inventory) Most(r *Request) (sum Amounts, ok bool) {
	for t := range r.of {
		want := &r.of[t]
		if !want.asked() {
			continue
		}
		var largest, whole Amounts
		matching := 0
		for at := range i.Devices[t] {
			d := &i.Devices[t][at]
			if !d.Healthy || want.selector != nil && !want.selector.Matches(labels.Set(d.Labels)) {
				continue
			}
			if amounts, can := fill(want.amounts, Type(t), d); can {
				if hasRoom(&amounts, &d.Total, &Amounts{}) {
					whole = whole.Max(d.Total)
				}
				largest = largest.Max(amounts)
				matching++
			}
		}
		if matching == 0 || matching < want.count {
			return sum, false
		}
		devices := i.mostDevices(r, Type(t), matching)
		for at := range largest {
			largest[at], whole[at] = times(largest[at], devices), times(whole[at], devices)
		}
		sum = sum.Add(r.WithNPUs(largest, whole))
	}
	return sum, true
}

// mostDevices returns the largest number of devices of the type that a pod with the request can get. matching is the
// number of suitable devices on the node. Of the joint types after the first, a pod may get more devices than it
// requests: one on each PCIe root of the first type's devices.
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

// SumOf returns the total amounts of the allocation. If the allocation has memory only in bytes or only as a ratio,
// SumOf computes the other value.
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
