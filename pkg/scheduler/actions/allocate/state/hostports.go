// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"iter"
	"math/bits"

	v1 "k8s.io/api/core/v1"
)

// allAddresses is the host IP of host ports that specify none: all addresses of the node.
const allAddresses = "0.0.0.0"

// hostPort is the number of a host port, with its protocol.
type hostPort struct {
	protocol v1.Protocol
	port     int32
}

// hostPorts returns the host ports of the pod's containers, each with its address.
func hostPorts(pod *v1.Pod) iter.Seq2[hostPort, string] {
	return func(yield func(hostPort, string) bool) {
		for i := range pod.Spec.Containers {
			for _, port := range pod.Spec.Containers[i].Ports {
				if port.HostPort > 0 && !yield(hostPort{cmp.Or(port.Protocol, v1.ProtocolTCP), port.HostPort}, cmp.Or(port.HostIP, allAddresses)) {
					return
				}
			}
		}
	}
}

// HasHostPorts reports whether the pod requests host ports.
func HasHostPorts(pod *v1.Pod) bool {
	for range hostPorts(pod) {
		return true
	}
	return false
}

// portClasses are the classes that request a host port, as sets of bits: bit i is for class i.
type portClasses struct {
	// any has the classes that request the port on any address. all has the classes that request it on all addresses.
	any, all uint64
	// one has, by address, the classes that request the port on this address.
	one map[string]uint64
}

// excludeByPorts makes the problem keep tasks apart that request the same host port on the same address. A port
// requested for all addresses conflicts with the port on each address.
//
// Tenants choose the ports, so the work is proportional to the number of ports, not of pairs of ports. A problem of more
// than MaxPackingClasses classes is only to be proved impossible. The proof merges classes and lets them share nodes, so
// in such a problem only tasks of the same class exclude each other.
func (in *PackingInput) excludeByPorts() {
	for i, tasks := range in.Tasks {
		in.Problem.Classes[i].Alone = HasHostPorts(tasks[0].Pod)
	}
	if len(in.Tasks) > MaxPackingClasses {
		return
	}
	ports := map[hostPort]*portClasses{}
	for i, tasks := range in.Tasks {
		for port, address := range hostPorts(tasks[0].Pod) {
			classes := ports[port]
			if classes == nil {
				classes = &portClasses{}
				ports[port] = classes
			}
			classes.add(uint64(1)<<i, address)
		}
	}
	for i, tasks := range in.Tasks {
		excluded := uint64(0)
		for port, address := range hostPorts(tasks[0].Pod) {
			excluded |= ports[port].conflicting(address)
		}
		for ; excluded != 0; excluded &= excluded - 1 {
			in.Problem.Exclude(i, bits.TrailingZeros64(excluded))
		}
	}
}

func (c *portClasses) add(class uint64, address string) {
	c.any |= class
	if address == allAddresses {
		c.all |= class
		return
	}
	if c.one == nil {
		c.one = map[string]uint64{}
	}
	c.one[address] |= class
}

// conflicting returns the classes that may not share a node with a task that requests the port on the address.
func (c *portClasses) conflicting(address string) uint64 {
	if address == allAddresses {
		return c.any
	}
	return c.all | c.one[address]
}
