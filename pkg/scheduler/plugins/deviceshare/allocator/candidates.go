// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"cmp"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
)

// candidate is a device that the requesting pod could have. Whether it is a candidate does not depend on the pod's
// other devices.
type candidate struct {
	// index is the index of the device in the inventory.
	index int
	// group is the number of the device's PCIe root, or of the group of devices that replaces the root in joint
	// allocation; -1 if unknown. numa is the NUMA node of that root or group; -1 if unknown.
	group, numa int
	score       float64
}

// verdict is the result of checking whether a device is a candidate: usable, or the first check that the device failed.
// The values are in the order of the checks.
type verdict int

const (
	usable verdict = iota
	unhealthy
	notSelected
	notInNUMA
	banned
	kept
	full
	noVF
	numVerdicts
)

// findCandidates sets the candidates of the type, in the order of the inventory's devices, and sets their bits in
// x.mask.
func (x *search) findCandidates(t Type) {
	x.candidates[t], x.mask[t] = x.candidates[t][:0], 0
	for i := range x.q.devices(t) {
		if x.q.verdictOn(t, i) == usable {
			x.candidates[t] = append(x.candidates[t], candidate{index: i})
			x.mask[t] |= 1 << i
		}
	}
}

// devices returns the devices of the type that the search considers. These are at most maxDevices, because a mask has
// one bit for each device.
func (q *problem) devices(t Type) []Device {
	devices := q.s.Devices[t]
	return devices[:min(len(devices), maxDevices)]
}

func (q *problem) verdictOn(t Type, i int) verdict {
	want, d := &q.r.of[t], &q.s.Devices[t][i]
	switch {
	case !d.Healthy:
		return unhealthy
	case want.selector != nil && !want.selector.Matches(labels.Set(d.Labels)):
		return notSelected
	case !q.inNUMANodes(d):
		return notInNUMA
	case q.limit != nil && q.limit.banned[t]&(1<<i) != 0:
		return banned
	case want.exclusive != NotExclusive && q.s.isUsed(t, i), q.s.exclusives > 0 && q.isKept(t, i), want.exclusive == PCIeLevel && q.isPCIeUsed(t, i):
		return kept
	}
	amounts, ok := fill(want.amounts, t, d)
	if !ok || !hasRoom(&amounts, &d.Total, &q.s.used[t][i]) {
		return full
	}
	if want.vfs != nil {
		if _, ok := q.freeVF(t, i); !ok {
			return noVF
		}
	}
	return usable
}

// Shares reports whether a pod with the request may get less than a whole GPU of this node. For a request by bytes of
// memory, the answer depends on the size of the node's GPUs. GPUs in use count too.
func (i *Inventory) Shares(r *Request) bool {
	want := &r.of[GPU]
	if !want.asked() || want.amounts[MemoryRatio] > 0 {
		return want.asked() && want.amounts[MemoryRatio] < 100
	}
	for at := range i.Devices[GPU] {
		d := &i.Devices[GPU][at]
		if d.Total[Memory] > want.amounts[Memory] && (want.selector == nil || want.selector.Matches(labels.Set(d.Labels))) {
			return true
		}
	}
	return false
}

// MostMemory returns the largest number of bytes of GPU memory that a request for these amounts can get from one GPU of
// the node.
func (i *Inventory) MostMemory(amounts Amounts) (most int64) {
	for at := range i.Devices[GPU] {
		if filled, ok := fill(amounts, GPU, &i.Devices[GPU][at]); ok {
			most = max(most, filled[Memory])
		}
	}
	return most
}

// inNUMANodes reports whether the device is on one of the allowed NUMA nodes. It also returns true if the NUMA node of the
// device is unknown, because the device is then equally far from all NUMA nodes.
func (q *problem) inNUMANodes(d *Device) bool {
	return len(q.o.NUMANodes) == 0 || d.NUMA < 0 || slices.Contains(q.o.NUMANodes, q.s.numaID(d))
}

// isKept reports whether another pod has the device, or its PCIe root, exclusively.
func (q *problem) isKept(t Type, i int) bool {
	if q.s.exclusive[t][i] != (exclusions{}) {
		return true
	}
	pcie := q.s.Devices[t][i].PCIe
	return q.anyOnPCIe(pcie, func(t Type, i int) bool { return q.s.exclusive[t][i].pcie > 0 })
}

// isPCIeUsed reports whether another pod uses a device of the same PCIe root.
func (q *problem) isPCIeUsed(t Type, i int) bool {
	return q.anyOnPCIe(q.s.Devices[t][i].PCIe, q.s.isUsed)
}

func (q *problem) anyOnPCIe(pcie int, is func(Type, int) bool) bool {
	if pcie < 0 {
		return false
	}
	for t := range q.s.Devices {
		for i := range q.s.Devices[t] {
			if q.s.Devices[t][i].PCIe == pcie && is(Type(t), i) {
				return true
			}
		}
	}
	return false
}

// fill completes the amounts that a pod gets of a GPU. It computes the bytes of memory from the ratio of memory, or the
// ratio from the bytes. It returns false if the bytes exceed the GPU's memory. The memory of a GPU is 0 if unknown.
func fill(amounts Amounts, t Type, d *Device) (Amounts, bool) {
	if t != GPU {
		return amounts, true
	}
	total := d.Total[Memory]
	switch {
	case amounts[Memory] == 0:
		amounts[Memory] = amounts[MemoryRatio] * total / 100
	case amounts[MemoryRatio] == 0:
		if amounts[Memory] > total {
			return amounts, false
		}
		amounts[MemoryRatio] = 100 * amounts[Memory] / total
	}
	return amounts, true
}

func hasRoom(amounts, total, used *Amounts) bool {
	for r, amount := range amounts {
		if amount > 0 && amount > total[r]-used[r] {
			return false
		}
	}
	return true
}

// freeVF returns a free virtual function of the device with labels that the request selects. Of several, it returns the
// one with the lowest bus ID.
func (q *problem) freeVF(t Type, i int) (VF, bool) {
	var first VF
	found := false
	used := q.s.usedVFs[t][i]
	for g := range q.s.Devices[t][i].VFGroups {
		group := &q.s.Devices[t][i].VFGroups[g]
		if !q.r.of[t].vfs.Matches(labels.Set(group.Labels)) {
			continue
		}
		for _, vf := range group.VFs {
			if found && vf.BusID >= first.BusID {
				break
			}
			if _, taken := slices.BinarySearch(used, vf.BusID); !taken {
				first, found = vf, true
				break
			}
		}
	}
	return first, found
}

// sortCandidates sets the group, the NUMA node and the score of each candidate of the type. It sorts the candidates by
// NUMA node, group, score and minor. joint reports whether the type is placed together with another type. If so, a
// candidate's group is the PCIe root or the group of devices that replaces the root (Inventory.root).
func (x *search) sortCandidates(t Type, joint bool) {
	x.groupNUMA = resize(x.groupNUMA, x.q.s.roots, -1)
	of := x.candidates[t]
	for c := range of {
		d := &x.q.s.Devices[t][of[c].index]
		of[c].group, of[c].numa, of[c].score = d.PCIe, d.NUMA, 0
		if joint {
			of[c].group = x.q.s.root(d)
		}
		// In joint allocation, a group of devices with equal label values may replace their PCIe roots. Its devices may be on
		// several NUMA nodes, or on unknown ones. Such a group counts as being on the known NUMA node with the highest
		// number.
		if group := of[c].group; group >= 0 {
			x.groupNUMA[group] = max(x.groupNUMA[group], d.NUMA)
		}
	}
	for c := range of {
		if group := of[c].group; group >= 0 {
			of[c].numa = x.groupNUMA[group]
		}
	}
	x.isScored[t] = false
	// Scores are needed only if more candidates exist than requested devices. Of joint types, only the first (the primary)
	// and types whose devices must be in one scope are scored here. The others are scored in followPrimary, because the
	// primary's devices often leave no choice.
	if want := &x.q.r.of[t]; !want.all && want.count < len(of) && (!joint || x.isPrimary(t) || want.scope > 0) {
		x.scoreCandidates(t)
	}
	slices.SortFunc(of, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.numa, b.numa), cmp.Compare(a.group, b.group), cmp.Compare(b.score, a.score), cmp.Compare(a.index, b.index))
	})
}

// scoreCandidates sets the scores of the type's candidates. The strategy is called once for all candidates with equal
// capacity and equal use. The strategy is not called if a plan for several members spreads shares over devices
// (limit.spread). The score is then the number of equal shares that fit into the free part of the device.
func (x *search) scoreCandidates(t Type) {
	if x.isScored[t] || x.q.o.Strategy == nil && !x.q.spreads(t) {
		return
	}
	x.isScored[t] = true
	if x.q.spreads(t) {
		for c := range x.candidates[t] {
			x.candidates[t][c].score = float64(x.q.copies(t, x.candidates[t][c].index))
		}
		return
	}
	of, devices, used := x.candidates[t], x.q.s.Devices[t], x.q.s.used[t]
	for c := range of {
		at := of[c].index
		equal := slices.IndexFunc(of[:c], func(other candidate) bool {
			return used[other.index] == used[at] && devices[other.index].Total == devices[at].Total
		})
		if equal >= 0 {
			of[c].score = of[equal].score
			continue
		}
		amounts, _ := fill(x.q.r.of[t].amounts, t, &devices[at])
		of[c].score = x.q.o.Strategy.DeviceScore(x.q.s, t, at, amounts)
	}
}

// copies returns how many pods with the search's request the free part of the device at index i could serve.
func (q *problem) copies(t Type, i int) int64 {
	copies := int64(math.MaxInt32)
	amounts, _ := fill(q.r.of[t].amounts, t, &q.s.Devices[t][i])
	for r, free := range q.s.Free(t, i) {
		if amounts[r] > 0 {
			copies = min(copies, free/amounts[r])
		}
	}
	return copies
}

// resize returns a slice of n numbers, each equal to value. It reuses the memory of old if old is large enough.
func resize(old []int, n, value int) []int {
	s := slices.Grow(old[:0], n)[:n]
	for i := range s {
		s[i] = value
	}
	return s
}
