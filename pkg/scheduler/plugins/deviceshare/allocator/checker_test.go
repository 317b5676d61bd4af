// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"fmt"
	"slices"
	"strconv"
)

// The checker applies the rules to the values from which a random node and a random pod were built. It shares no code
// with the search.

// choice is a set of devices of each type.
type choice [numTypes][]*testDevice

// violation returns the rule that the choice violates, or "".
func (n *testNode) violation(p *testPod, c *choice) string {
	for t := range c {
		w := &p.of[t]
		for _, d := range c[t] {
			if why := n.deviceViolation(w, d); why != "" {
				return fmt.Sprintf("%s %d: %s", Type(t), d.minor, why)
			}
		}
		if w.asked() && !inScope(c[t], w.scope) {
			return fmt.Sprintf("%s: not in one %s", Type(t), w.scope)
		}
		if w.all && len(c[t]) != n.matching(w, Type(t)) {
			return fmt.Sprintf("%s: not all that match", Type(t))
		}
		if w.all && len(c[t]) == 0 {
			return fmt.Sprintf("%s: none matches", Type(t))
		}
	}
	if why := n.countViolation(p, c); why != "" {
		return why
	}
	return n.partitionViolation(p, c[GPU])
}

func (n *testNode) matching(w *testWant, t Type) (count int) {
	for _, d := range n.devices[t] {
		if d.healthy && (w.selector == "" || w.selector == d.label) {
			count++
		}
	}
	return count
}

func (n *testNode) deviceViolation(w *testWant, d *testDevice) string {
	free := 100 - d.used
	need := w.percent
	if w.memoryGiB > 0 {
		need = 100 * w.memoryGiB / d.memoryGiB
	}
	switch {
	case !w.asked():
		return "not asked for"
	case !d.healthy:
		return "unhealthy"
	case w.selector != "" && w.selector != d.label:
		return "not selected"
	case need > free:
		return "no room"
	case d.exclusive != "":
		return "another pod's alone"
	case w.exclusive != "" && d.inUse():
		return "in use"
	case w.vfs != "" && (w.vfs != d.vfLabel || len(d.takenVFs) >= d.vfs):
		return "no virtual function"
	}
	for t := range n.devices {
		for _, other := range n.devices[t] {
			if d.pcie == "" || other.pcie != d.pcie {
				continue
			}
			if other.exclusive == "PCIeLevel" || w.exclusive == "PCIeLevel" && other.inUse() {
				return "on a PCIe root with others"
			}
		}
	}
	return ""
}

func inScope(devices []*testDevice, scope string) bool {
	if len(devices) < 2 {
		return true
	}
	for _, d := range devices {
		first := devices[0]
		switch {
		case scope == "Device":
			return false
		case scope == "PCIe" && (d.pcie == "" || d.pcie != first.pcie), scope == "NUMANode" && (d.numa < 0 || d.numa != first.numa):
			return false
		}
	}
	return true
}

// countViolation checks the numbers of devices of each type, and where the devices of joint types are.
func (n *testNode) countViolation(p *testPod, c *choice) string {
	var joint []Type
	for _, t := range p.joint {
		if p.of[t].asked() {
			joint = append(joint, t)
		}
	}
	if at := slices.Index(joint, GPU); at > 0 && (p.partition != "" || n.policy == "Honor") && !n.shares(&p.of[GPU]) {
		joint = slices.Insert(slices.Delete(joint, at, at+1), 0, GPU)
	}
	for t := range c {
		w := &p.of[t]
		if w.all || slices.Contains(joint[min(1, len(joint)):], Type(t)) {
			continue
		}
		if len(c[t]) != w.count {
			return fmt.Sprintf("%d of type %s, want %d", len(c[t]), Type(t), w.count)
		}
	}
	if len(joint) < 2 {
		return ""
	}
	roots := rootsOf(c[joint[0]])
	for _, t := range joint[1:] {
		got, own := len(c[t]), p.of[t].count
		if !p.of[t].all && (got < own || got > max(own, len(roots))) {
			return fmt.Sprintf("%d of joint type %s, want %d to %d", got, t, own, len(roots))
		}
		if !p.samePCIe {
			continue
		}
		if !slices.Equal(roots, rootsOf(c[t])) || slices.Contains(roots, "") || !p.of[t].all && got != max(own, len(roots)) {
			return fmt.Sprintf("%s on roots %v, %s on %v", joint[0], roots, t, rootsOf(c[t]))
		}
	}
	return ""
}

func rootsOf(devices []*testDevice) (roots []string) {
	for _, d := range devices {
		roots = append(roots, d.root())
	}
	slices.Sort(roots)
	return slices.Compact(roots)
}

func (n *testNode) partitionViolation(p *testPod, gpus []*testDevice) string {
	if !p.of[GPU].asked() || p.partition == "" && n.policy != "Honor" || n.shares(&p.of[GPU]) {
		return ""
	}
	best := -1
	entries := n.partitions[strconv.Itoa(len(gpus))]
	for _, entry := range entries {
		best = max(best, entry.AllocationScore)
	}
	for _, entry := range entries {
		bandwidth, _ := strconv.ParseInt(entry.RingBusBandwidth, 10, 64)
		if len(entry.Minors) != len(gpus) || p.partition != "" && bandwidth < p.bandwidth || p.partition == "Restricted" && entry.AllocationScore < best {
			continue
		}
		if !slices.ContainsFunc(gpus, func(d *testDevice) bool { return d.inUse() || !slices.Contains(entry.Minors, d.minor) }) {
			return ""
		}
	}
	return "the GPUs are no partition"
}

// shares reports whether any selected healthy GPU has more than the request, so that the pod gets only a share of it.
func (n *testNode) shares(w *testWant) bool {
	if w.memoryGiB == 0 {
		return w.percent < 100
	}
	return slices.ContainsFunc(n.devices[GPU], func(d *testDevice) bool {
		return d.healthy && w.memoryGiB < d.memoryGiB && (w.selector == "" || w.selector == d.label)
	})
}

// feasible reports whether any choice of devices satisfies the pod's rules.
func (n *testNode) feasible(p *testPod) bool {
	ok := false
	n.eachChoice(func(c *choice) bool {
		ok = n.violation(p, c) == ""
		return !ok
	})
	return ok
}

func (n *testNode) eachChoice(visit func(*choice) bool) {
	sizes := [numTypes]int{len(n.devices[GPU]), len(n.devices[RDMA]), len(n.devices[FPGA])}
	for mask := range uint64(1) << (sizes[0] + sizes[1] + sizes[2]) {
		var c choice
		left := mask
		for t, size := range sizes {
			for i := range size {
				if left&1 != 0 {
					c[t] = append(c[t], n.devices[t][i])
				}
				left >>= 1
			}
		}
		if !visit(&c) {
			return
		}
	}
}

// choiceOf returns the devices of the allocation as a choice.
func (n *testNode) choiceOf(a *Allocation) (*choice, error) {
	c := &choice{}
	for t := range a {
		for _, given := range a[t] {
			at := slices.IndexFunc(n.devices[t], func(d *testDevice) bool { return d.minor == given.Minor })
			if at < 0 || slices.Contains(c[t], n.devices[t][at]) {
				return nil, fmt.Errorf("%s %d: does not exist, or twice", Type(t), given.Minor)
			}
			d := n.devices[t][at]
			for _, vf := range given.VFs {
				if slices.ContainsFunc(d.takenVFs, func(taken int) bool { return d.bus(taken) == vf.BusID }) {
					return nil, fmt.Errorf("%s %d: virtual function %s is taken", Type(t), given.Minor, vf.BusID)
				}
			}
			c[t] = append(c[t], d)
		}
	}
	return c, nil
}

// take marks the devices of the choice as used by the pod. The returned function reverts that.
func (n *testNode) take(p *testPod, c *choice) (undo func()) {
	var before []testDevice
	var taken []*testDevice
	for t := range c {
		w := &p.of[t]
		for _, d := range c[t] {
			before, taken = append(before, *d), append(taken, d)
			if w.memoryGiB > 0 {
				d.used += 100 * w.memoryGiB / d.memoryGiB
			}
			d.used += w.percent
			if w.vfs != "" {
				d.takenVFs = append(slices.Clip(d.takenVFs), d.freeVF())
			}
			if w.exclusive != "" {
				d.exclusive = w.exclusive
			}
		}
	}
	return func() {
		for i := range taken {
			*taken[i] = before[i]
		}
	}
}

func (d *testDevice) freeVF() int {
	for vf := range d.vfs {
		if !slices.Contains(d.takenVFs, vf) {
			return vf
		}
	}
	return -1
}

// feasibleTogether reports whether all pods can have devices together, by trying all choices.
func (n *testNode) feasibleTogether(pods []*testPod) bool {
	if len(pods) == 0 {
		return true
	}
	ok := false
	n.eachChoice(func(c *choice) bool {
		if n.violation(pods[0], c) == "" {
			undo := n.take(pods[0], c)
			ok = n.feasibleTogether(pods[1:])
			undo()
		}
		return !ok
	})
	return ok
}

// violationInAnyOrder returns "" if the pods can take their devices one after another in some order.
func (n *testNode) violationInAnyOrder(pods []*testPod, allocations []*Allocation) (why string) {
	if len(pods) == 0 {
		return ""
	}
	for i := range pods {
		c, err := n.choiceOf(allocations[i])
		if err != nil {
			why = err.Error()
			continue
		}
		if why = n.violation(pods[i], c); why != "" {
			continue
		}
		undo := n.take(pods[i], c)
		why = n.violationInAnyOrder(slices.Delete(slices.Clone(pods), i, i+1), slices.Delete(slices.Clone(allocations), i, i+1))
		undo()
		if why == "" {
			return ""
		}
	}
	return why
}

// leading returns the device type that is chosen first.
func (p *testPod) leading() Type {
	for _, t := range p.joint {
		if p.of[t].asked() {
			return t
		}
	}
	for t := range p.of {
		if p.of[t].asked() {
			return Type(t)
		}
	}
	return GPU
}

func scopeOf(devices []*testDevice) Scope {
	for scope, name := range scopeNames[ScopePCIe:] {
		if inScope(devices, name) {
			return ScopePCIe + Scope(scope)
		}
	}
	return ScopeNode
}

// narrowest returns the narrowest scope of the leading type among all valid choices. Partitions take precedence over
// scopes.
func (n *testNode) narrowest(p *testPod) Scope {
	narrowest := ScopeNode
	if n.partitions != nil && !n.shares(&p.of[GPU]) {
		return narrowest
	}
	n.eachChoice(func(c *choice) bool {
		if scope := scopeOf(c[p.leading()]); scope < narrowest && n.violation(p, c) == "" {
			narrowest = scope
		}
		return narrowest > ScopePCIe
	})
	return narrowest
}
