// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Request is what a pod asks of its node's devices. It does not change once made, and may be asked of many nodes at once.
type Request struct {
	of [numTypes]typeRequest
	// joint are the types that are wanted close together and asked for, the primary first; empty unless there are two or more.
	joint []Type
	// samePCIe reports whether joint types must be on the same PCIe roots.
	samePCIe  bool
	partition partitionSpec
	// templated is true of a share of a GPU that is one of the model's shared-resource templates.
	templated bool
	// isolation is what the pod needs to keep its share of a GPU apart from others.
	isolation string
	// vendor is the vendor's name that GPUs are requested by; empty if another name is used.
	vendor     v1.ResourceName
	vendorOnly bool
	key        string
}

// typeRequest is what a pod asks of one type of devices.
type typeRequest struct {
	// amounts are of each device.
	amounts Amounts
	// count is how many devices; it says nothing if all, which is every healthy one that matches.
	count int
	all   bool
	// selector chooses devices by label; nil for any. vfs chooses virtual functions, one of each device; nil for none.
	selector, vfs labels.Selector
	// scope is what the devices must share; 0 for nothing.
	scope     Scope
	exclusive Exclusivity
}

func (t *typeRequest) asked() bool { return t.count > 0 || t.all }

// partitionSpec is how a pod asks for GPUs that are an entry of the node's partition table.
type partitionSpec struct {
	asked bool
	// restricted reports whether only entries with the best score are allowed.
	restricted bool
	// bandwidth is the least of the ring, in bytes per second.
	bandwidth int64
}

// Scope is what part of a node devices have in common, the narrowest first.
type Scope int

// The scopes.
const (
	ScopeDevice Scope = iota + 1
	ScopePCIe
	ScopeNUMANode
	ScopeNode
)

var scopeNames = [...]string{"", "Device", "PCIe", "NUMANode", "Node"}

func (s Scope) String() string { return scopeNames[s] }

// Exclusivity is whom a pod shares its devices' surroundings with.
type Exclusivity int

// A pod shares its devices; has its devices alone; has all devices on its devices' PCIe roots alone.
const (
	NotExclusive Exclusivity = iota
	DeviceLevel
	PCIeLevel
)

var exclusivityNames = [...]string{"", "DeviceLevel", "PCIeLevel"}

func (e Exclusivity) String() string { return exclusivityNames[e] }

// OnlyVendorDevices reports whether the request is for any whole GPUs by the vendor's name. A node without a Device object may
// serve it by number.
func (r *Request) OnlyVendorDevices() bool { return r.vendorOnly }

// IsTemplated is true of a request for a share of a GPU by template.
func (r *Request) IsTemplated() bool { return r.templated }

// Key is equal for requests that are equal for every purpose.
func (r *Request) Key() string { return r.key }

// Wants returns the amounts of each device of the type, and the number of devices. all reports whether the request is for every
// matching device, whose number depends on the node.
func (r *Request) Wants(t Type) (amounts Amounts, count int, all bool) {
	return r.of[t].amounts, r.of[t].count, r.of[t].all
}

func (r *Request) makeKey() string {
	var b strings.Builder
	for t := range r.of {
		want := &r.of[t]
		if !want.asked() {
			continue
		}
		fmt.Fprintf(&b, "%s=%d*%v/%t/%s/%s", Type(t), want.count, want.amounts, want.all, want.scope, want.exclusive)
		if want.selector != nil {
			fmt.Fprintf(&b, "/on %q", want.selector.String())
		}
		if want.vfs != nil {
			fmt.Fprintf(&b, "/vf %q", want.vfs.String())
		}
		b.WriteByte(';')
	}
	fmt.Fprintf(&b, "%v%t%v%t%q%t%q", r.joint, r.samePCIe, r.partition, r.templated, r.vendor, r.vendorOnly, r.isolation)
	return b.String()
}

// noun is what messages call a number of devices of the type.
func (t Type) noun(n int) string {
	return fmt.Sprintf("%d %s%s", n, typeNouns[t], map[bool]string{true: "", false: "s"}[n == 1])
}

var typeNouns = [numTypes]string{"GPU", "RDMA NIC", "FPGA"}

// one is what messages call one device of the type.
func (t Type) one() string { return [numTypes]string{"a", "an", "an"}[t] + " " + typeNouns[t] }
