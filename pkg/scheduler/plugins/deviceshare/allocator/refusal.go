// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"fmt"
	"strconv"
	"strings"
)

// failure is the reason why a search found no devices. Its field what has the type of the missing devices.
type failure struct {
	why  why
	what Type
}

type why int

const (
	found why = iota
	tooFew
	notInScope
	notJoint
	noPartitionTable
	noPartitionSize
	noPartition
	otherIsolation
	noTemplate
)

// reason returns the message for a failure of the search's last run. It is Koordinator's message with the numbers of
// free and requested devices added.
func (x *search) reason(f failure) string {
	want := &x.q.r.of[f.what]
	switch f.why {
	case tooFew:
		return reasonTooFew(x, f.what)
	case notInScope:
		title := "Insufficient Topology Scoped GPU Devices"
		if f.what != GPU {
			title = fmt.Sprintf("Insufficient Topology Scoped %s devices", f.what)
		}
		scope := x.q.widest(f.what)
		if !knowsTopology(x, f.what, scope) {
			return fmt.Sprintf("node(s) missing GPU Device Topology Tree: %s free, requested on one %s, which the Device object does not report", freeOf(x, f.what), scope.noun())
		}
		return fmt.Sprintf("%s: %s requested on one %s, %s free, at most %d on one", title, want.howMany(), scope.noun(), freeOf(x, f.what), mostIn(x, f.what, scope))
	case notJoint:
		return reasonNotJoint(x, f.what)
	case noPartitionTable:
		return "node(s) missing GPU Partition Table: GPUs are allocated by partition only"
	case noPartitionSize:
		return fmt.Sprintf("node(s) Unsupported number of GPU requests: the partition table has no partition of %d", want.count)
	case noPartition:
		return fmt.Sprintf("Insufficient Partitioned GPU Devices: %s free, no partition of %d fits", freeOf(x, GPU), want.count)
	case otherIsolation:
		return fmt.Sprintf("GPU isolation provider is %.64q, the pod requests %.64q", x.q.s.IsolationProvider, x.q.r.isolation)
	case noTemplate:
		return fmt.Sprintf("no matched GPU shared resource template: of vendor %.64q and model %.64q", x.q.s.Vendor, x.q.s.Model)
	}
	return "Insufficient devices"
}

func freeOf(x *search, t Type) string { return t.noun(len(x.candidates[t])) }

func (t *typeRequest) howMany() string {
	if t.all {
		return "all that match"
	}
	return strconv.Itoa(t.count)
}

// reasonTooFew returns the message for too few free devices of the type. It lists for each cause how many devices
// cannot be used.
func reasonTooFew(x *search, t Type) string {
	want := &x.q.r.of[t]
	var by [numVerdicts]int
	for i := range x.q.devices(t) {
		by[x.q.verdictOn(t, i)]++
	}
	var b strings.Builder
	switch {
	case by[noVF] > 0 && by[usable]+by[noVF] >= want.count:
		fmt.Fprintf(&b, "Insufficient %s VirtualFunctions: ", t)
	case by[notInNUMA] > 0 && by[usable]+by[notInNUMA] >= want.count:
		b.WriteString("Insufficient NUMA Scoped Devices: ")
	default:
		fmt.Fprintf(&b, "Insufficient %s devices: ", t)
	}
	fmt.Fprintf(&b, "%s requested, %d of %s free", want.howMany(), by[usable], t.noun(len(x.q.devices(t))))
	for v, text := range [numVerdicts]string{
		unhealthy: "unhealthy", notSelected: "not selected", notInNUMA: "on other NUMA nodes", banned: "planned for other members",
		kept: "used by or reserved for other pods", full: "without room", noVF: "without a virtual function",
	} {
		if by[v] > 0 && text != "" {
			fmt.Fprintf(&b, ", %d %s", by[v], text)
		}
	}
	if more := x.q.s.LeftOut[t]; more > 0 {
		fmt.Fprintf(&b, ", %d ignored because a Device object may list at most %d", more, maxDevices)
	}
	return b.String()
}

// reasonNotJoint returns the message for joint types that cannot be placed together. t is the first of them. The
// message names the first other type that has too few devices on the PCIe roots of the free devices of type t.
func reasonNotJoint(x *search, t Type) string {
	const title = "Device Joint-Allocate rules violation: "
	for _, secondary := range x.joint[1:] {
		with := 0
		x.countOnRoots(secondary)
		for _, c := range x.candidates[t] {
			if c.group >= 0 && x.onRoot[secondary][c.group] > 0 {
				with++
			}
		}
		noun := secondary.one()
		switch {
		case with == 0:
			return fmt.Sprintf("%s%s free, none with %s on the same PCIe switch", title, freeOf(x, t), noun)
		case with < x.q.count(t):
			return fmt.Sprintf("%s%s free, only %d with %s on the same PCIe switch, %s requested", title, freeOf(x, t), with, noun, x.q.r.of[t].howMany())
		}
	}
	together := "on the same PCIe switches"
	if scope := x.q.widest(t); scope < ScopeNode {
		together += " and on one " + scope.noun()
	}
	return fmt.Sprintf("%s%s free, no %d with all requested devices %s", title, freeOf(x, t), x.q.count(t), together)
}

func knowsTopology(x *search, t Type, scope Scope) bool {
	for _, c := range x.candidates[t] {
		if x.q.partOf(t, c.index, scope) >= 0 {
			return true
		}
	}
	return false
}

// mostIn returns the largest number of candidates that any one part of the node of the given scope has.
func mostIn(x *search, t Type, scope Scope) int {
	most := 0
	for part := range x.q.parts(t, scope) {
		n := 0
		for _, c := range x.candidates[t] {
			if x.q.partOf(t, c.index, scope) == part {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
