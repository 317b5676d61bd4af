// SPDX-License-Identifier: Apache-2.0

package allocator

import "math/bits"

// placePartition chooses GPUs that are together an entry of the node's partition table. final reports whether the
// caller must use this result. That is so if an entry was found, or if the pod or the node requires one. Otherwise the
// caller may choose GPUs without the table.
//
// placePartition prefers the unused entry with the best score. Among entries with equal scores, it prefers an entry
// whose PCIe roots have devices of all secondary types (joint types after the first). Then it prefers an entry that
// leaves the largest other entries unused.
func (x *search) placePartition(secondaries []Type) (best plan, f failure, final bool) {
	spec := &x.q.r.partition
	honored := x.q.mustPartition()
	table := x.q.s.Partitions
	if table == nil {
		return best, failure{noPartitionTable, GPU}, honored
	}
	count := x.q.r.of[GPU].count
	entries := table[count]
	if len(entries) == 0 {
		return best, failure{noPartitionSize, GPU}, honored
	}
	f = failure{noPartition, GPU}
	unused := x.q.unusedGPUs()
	for at := range entries {
		entry := &entries[at]
		if (best.ok || spec.restricted) && entry.Score != entries[max(at-1, 0)].Score {
			break
		}
		if entry.Bandwidth < spec.bandwidth {
			continue
		}
		if entry.mask == 0 || entry.mask&^(unused&x.mask[GPU]) != 0 {
			continue
		}
		p := x.tryPartition(entry.mask, secondaries)
		if !p.ok {
			if x.q.r.samePCIe && len(secondaries) > 0 {
				f = failure{notJoint, GPU}
			}
			continue
		}
		p.value.loss = -x.q.tableLeft(unused &^ entry.mask)
		if !best.ok || p.value.compare(best.value) > 0 {
			best = p
		}
	}
	if best.ok {
		return best, failure{}, true
	}
	return best, f, honored
}

// unusedGPUs returns a mask with a bit for each healthy GPU that no pod uses.
func (q *problem) unusedGPUs() (mask uint64) {
	for i := range q.devices(GPU) {
		if q.s.Devices[GPU][i].Healthy && !q.s.isUsed(GPU, i) {
			mask |= 1 << i
		}
	}
	return mask
}

// tableLeft returns the total worth of the partition table's entries whose GPUs are all in the mask unused. An entry of
// eight GPUs is worth a hundred entries of four, and an entry of four is worth a hundred entries of two.
func (q *problem) tableLeft(unused uint64) int {
	left := 0
	for _, size := range []struct{ gpus, worth int }{{8, 10000}, {4, 100}, {2, 1}} {
		for at := range q.s.Partitions[size.gpus] {
			if mask := q.s.Partitions[size.gpus][at].mask; mask != 0 && mask&^unused == 0 {
				left += size.worth
			}
		}
	}
	return left
}

// tryPartition returns a plan with exactly the GPUs in mask, and with suitable devices of the secondary types (joint
// types after the first). The plan is not ok if these GPUs are not in the requested scope, or if devices of a secondary
// type are missing.
func (x *search) tryPartition(mask uint64, secondaries []Type) (p plan) {
	all := x.candidates[GPU]
	defer func() { x.candidates[GPU] = all }()
	x.candidates[GPU] = make([]candidate, 0, bits.OnesCount64(mask))
	for _, c := range all {
		if mask&(1<<c.index) != 0 {
			x.candidates[GPU] = append(x.candidates[GPU], c)
		}
	}
	p, _ = x.placeByTopology(GPU, secondaries)
	return p
}
