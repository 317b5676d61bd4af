// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Request is a pod's parsed request for devices. It is immutable and safe for concurrent use.
type Request struct {
	of [numTypes]typeRequest
	// joint are the requested types with devices that must or should be on the same PCIe roots, the primary first. It is
	// empty or has at least two types.
	joint []Type
	// samePCIe reports whether devices of joint types must be on the same PCIe roots.
	samePCIe  bool
	partition partitionSpec
	// templated reports whether the request is for a share of a GPU that must equal one of the shared-resource templates of
	// the GPU's model.
	templated bool
	// isolation is the name of the mechanism that must isolate the pod's share of a GPU from others.
	isolation string
	// vendor is the resource name of a GPU vendor, such as nvidia.com/gpu, if GPUs are requested by such a name; else
	// empty. vendorOnly is the result of OnlyVendorDevices.
	vendor     v1.ResourceName
	vendorOnly bool
	key        string
}

// typeRequest is the request for one type of devices.
type typeRequest struct {
	// amounts are the requested amounts of each device.
	amounts Amounts
	// count is the number of devices. It is ignored if all is set, which requests every healthy device that matches.
	count int
	all   bool
	// selector selects devices by their labels; nil for any device. vfs selects virtual functions by their labels, and the
	// pod gets one of each of its devices; nil for none.
	selector, vfs labels.Selector
	// scope is the part of the node that all devices of the type must share; 0 for no restriction.
	scope     Scope
	exclusive Exclusivity
}

func (t *typeRequest) asked() bool { return t.count > 0 || t.all }

// partitionSpec is a request for GPUs that are an entry of the node's partition table.
type partitionSpec struct {
	asked bool
	// restricted reports whether only entries with the best score are allowed.
	restricted bool
	// bandwidth is the smallest bandwidth of the ring, in bytes per second.
	bandwidth int64
}

// Scope is a kind of part of a node that devices may share, ordered from the narrowest.
type Scope int

// The scopes, from a single device to the whole node.
const (
	ScopeDevice Scope = iota + 1
	ScopePCIe
	ScopeNUMANode
	ScopeNode
)

var scopeNames = [...]string{"", "Device", "PCIe", "NUMANode", "Node"}

func (s Scope) String() string { return scopeNames[s] }

// Exclusivity is the part of a node that a pod has for itself.
type Exclusivity int

// The values of Exclusivity, in their order: the pod shares its devices; it has its devices exclusively; it has all devices
// on the PCIe roots of its devices exclusively.
const (
	NotExclusive Exclusivity = iota
	DeviceLevel
	PCIeLevel
)

var exclusivityNames = [...]string{"", "DeviceLevel", "PCIeLevel"}

func (e Exclusivity) String() string { return exclusivityNames[e] }

// OnlyVendorDevices reports whether the request is only for a number of whole GPUs by a vendor's name, so that any GPUs
// suffice. A node without a Device object may serve such a request by number.
func (r *Request) OnlyVendorDevices() bool { return r.vendorOnly }

// IsTemplated reports whether the request is for a share of a GPU by shared-resource template.
func (r *Request) IsTemplated() bool { return r.templated }

// Key returns a key that is equal for equal requests.
func (r *Request) Key() string { return r.key }

// Wants returns the requested amounts of each device of the type, and the number of devices. all reports whether the
// request is for every matching device; the number then depends on the node.
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

// noun returns the text for n devices of the type, such as "2 GPUs".
func (t Type) noun(n int) string {
	return fmt.Sprintf("%d %s%s", n, typeNouns[t], map[bool]string{true: "", false: "s"}[n == 1])
}

var typeNouns = [numTypes]string{"GPU", "RDMA NIC", "FPGA"}

// one returns the text for one device of the type, such as "a GPU".
func (t Type) one() string { return [numTypes]string{"a", "an", "an"}[t] + " " + typeNouns[t] }
