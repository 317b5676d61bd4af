// SPDX-License-Identifier: Apache-2.0

package allocator

import v1 "k8s.io/api/core/v1"

// Type is a type of devices. The type's name in Device objects and annotations is its String().
type Type int

// The types of devices, in the order in which they are allocated unless a pod's joint allocation says otherwise.
const (
	GPU Type = iota
	RDMA
	FPGA
	numTypes
)

var typeNames = [numTypes]string{"gpu", "rdma", "fpga"}

func (t Type) String() string { return typeNames[t] }

// TypeOf returns the type with the given name; false if no type has the name.
func TypeOf(name string) (Type, bool) {
	for t, known := range typeNames {
		if known == name {
			return Type(t), true
		}
	}
	return 0, false
}

// Resource is a resource of a device.
type Resource int

// The resources of devices. Core, MemoryRatio, RDMAShare and FPGAShare are in hundredths of a device, Memory is in
// bytes. NPUCore, NPUCPU and NPUDVPP count the cores, CPUs and DVPP units of an NPU chip.
const (
	Core Resource = iota
	MemoryRatio
	Memory
	RDMAShare
	FPGAShare
	NPUCore
	NPUCPU
	NPUDVPP
	numResources
)

var resourceNames = [numResources]v1.ResourceName{
	"koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio", "koordinator.sh/gpu-memory", "koordinator.sh/rdma", "koordinator.sh/fpga",
	"huawei.com/npu-core", "huawei.com/npu-cpu", "huawei.com/npu-dvpp",
}

// Name returns the resource's name in Device objects, annotations and pods.
func (r Resource) Name() v1.ResourceName { return resourceNames[r] }

// ResourceOf returns the resource with the given name; false if no resource has the name.
func ResourceOf(name v1.ResourceName) (Resource, bool) {
	for r, known := range resourceNames {
		if known == name {
			return Resource(r), true
		}
	}
	return 0, false
}

// Amounts holds an amount of each device resource, indexed by Resource.
type Amounts [numResources]int64

// Add returns the sum of a and b, for each resource.
func (a Amounts) Add(b Amounts) Amounts {
	for r := range a {
		a[r] += b[r]
	}
	return a
}

// Sub returns a minus b for each resource. Results may be negative.
func (a Amounts) Sub(b Amounts) Amounts {
	for r := range a {
		a[r] -= b[r]
	}
	return a
}

// Max returns the larger of the amounts in a and b, for each resource.
func (a Amounts) Max(b Amounts) Amounts {
	for r := range a {
		a[r] = max(a[r], b[r])
	}
	return a
}

// Min returns the smaller of the amounts in a and b, for each resource.
func (a Amounts) Min(b Amounts) Amounts {
	for r := range a {
		a[r] = min(a[r], b[r])
	}
	return a
}

// Within reports whether no amount in a exceeds the amount of the same resource in b.
func (a Amounts) Within(b Amounts) bool {
	for r := range a {
		if a[r] > b[r] {
			return false
		}
	}
	return true
}

// IsZero reports whether all amounts are zero.
func (a Amounts) IsZero() bool { return a == Amounts{} }
