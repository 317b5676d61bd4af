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
	// joint are the requested types whose devices must or should be on the same PCIe roots. The first type is the primary;
	// the others are secondaries. joint is empty or has at least two types.
	joint []Type
	// samePCIe reports whether devices of joint types must be on the same PCIe roots.
	samePCIe  bool
	partition partitionSpec
	// templated reports whether the request is for a share of a GPU that must equal one of the shared-resource templates
	// of the GPU's model.
	templated bool
	// isolation is the name of the mechanism that must isolate the pod's share of a GPU from other shares of the GPU.
	isolation string
	// vendor is a GPU vendor's resource name, such as nvidia.com/gpu, if the pod requests GPUs by this name; else empty.
	// vendorOnly reports whether the request is only for a number of whole GPUs by this name.
	vendor     v1.ResourceName
	vendorOnly bool
	key        string
}

// typeRequest is the request for one type of devices.
type typeRequest struct {
	// amounts are the amounts that the pod requests of each device.
	amounts Amounts
	// count is the number of requested devices. It is ignored if the field all is set, which requests every healthy
	// device that the selector matches.
	count int
	all   bool
	// selector selects devices by their labels; nil for any device. vfs selects virtual functions by their labels; nil for
	// none. The pod gets one selected virtual function of each of its devices.
	selector, vfs labels.Selector
	// scope is the kind of part of the node in which all devices of the type must be together; 0 for no restriction.
	scope     Scope
	exclusive Exclusivity
}

func (t *typeRequest) asked() bool { return t.count > 0 || t.all }

// partitionSpec is a request for GPUs that are together an entry of the node's partition table.
type partitionSpec struct {
	asked bool
	// restricted reports whether only entries of the partition table with the best score are allowed.
	restricted bool
	// bandwidth is the lowest allowed bandwidth of the ring that connects the GPUs, in bytes per second.
	bandwidth int64
}

// Scope is a kind of part of a node, such as a NUMA node. Scopes are ordered from the narrowest to the widest.
type Scope int

// The scopes in which devices can be together, from a single device to the whole node.
const (
	ScopeDevice Scope = iota + 1
	ScopePCIe
	ScopeNUMANode
	ScopeNode
)

var scopeNames = [...]string{"", "Device", "PCIe", "NUMANode", "Node"}

func (s Scope) String() string { return scopeNames[s] }

// noun returns the name of a part of a node of the scope, such as "PCIe switch".
func (s Scope) noun() string { return scopeNouns[s] }

var scopeNouns = [...]string{"", "device", "PCIe switch", "NUMA node", "node"}

// Exclusivity is the part of a node that no other pod may use while a pod has a device.
type Exclusivity int

// The values of Exclusivity: the pod shares its devices with other pods; no other pod may use its devices; no other pod
// may use any device on the PCIe roots of its devices.
const (
	NotExclusive Exclusivity = iota
	DeviceLevel
	PCIeLevel
)

var exclusivityNames = [...]string{"", "DeviceLevel", "PCIeLevel"}

func (e Exclusivity) String() string { return exclusivityNames[e] }

// OnlyVendorDevices reports whether the request is only for a number of whole GPUs by a vendor's name, so that any GPUs
// suffice. A node without a Device object may serve such a request by counting GPUs.
func (r *Request) OnlyVendorDevices() bool { return r.vendorOnly }

// IsTemplated reports whether the request is for a share of a GPU by shared-resource template.
func (r *Request) IsTemplated() bool { return r.templated }

// Key returns a text that is equal for equal requests.
func (r *Request) Key() string { return r.key }

// Wants returns the amounts that are requested of each device of the type, and the number of devices. all reports
// whether the request is for every matching device; the number then depends on the node.
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
