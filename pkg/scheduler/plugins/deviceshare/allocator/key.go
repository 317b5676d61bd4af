// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/volcano-prebind/volcano-prebind/internal/keybytes"
)

// AppendUse appends to b a key that describes how pods use the devices. If two states have equal keys from AppendUse,
// and their inventories have equal keys from Key, a request fits into both states or into neither.
func (s *State) AppendUse(b []byte) []byte {
	for t := range s.Devices {
		for i := range s.Devices[t] {
			for _, amount := range s.used[t][i] {
				b = binary.AppendVarint(b, amount)
			}
			b = binary.AppendVarint(binary.AppendVarint(b, int64(s.exclusive[t][i].device)), int64(s.exclusive[t][i].pcie))
			b = binary.AppendUvarint(b, uint64(len(s.usedVFs[t][i])))
			for _, vf := range s.usedVFs[t][i] {
				b = keybytes.Text(b, vf)
			}
		}
	}
	return b
}

// Key returns a key of everything in the inventory that the result of Allocate may depend on. Only the name of the node
// and the UUIDs of its devices are left out.
func (i *Inventory) Key() string {
	var b []byte
	b = keybytes.Text(keybytes.Text(keybytes.Text(keybytes.Text(b, i.PartitionPolicy), i.Vendor), i.Model), i.IsolationProvider)
	b = binary.AppendUvarint(b, uint64(len(i.numaIDs)))
	for _, id := range i.numaIDs {
		b = binary.AppendVarint(b, int64(id))
	}
	for t := range i.Devices {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(len(i.Devices[t]))), uint64(i.LeftOut[t]))
		for _, d := range i.Devices[t] {
			b = binary.AppendVarint(b, int64(d.Minor))
			b = keybytes.Flag(b, d.Healthy)
			for _, amount := range d.Total {
				b = binary.AppendVarint(b, amount)
			}
			b = binary.AppendVarint(binary.AppendVarint(binary.AppendVarint(b, int64(d.PCIe)), int64(d.NUMA)), int64(d.affinity))
			b = keybytes.Map(b, d.Labels)
			b = binary.AppendUvarint(b, uint64(len(d.VFGroups)))
			for _, group := range d.VFGroups {
				b = binary.AppendUvarint(keybytes.Map(b, group.Labels), uint64(len(group.VFs)))
				for _, vf := range group.VFs {
					b = keybytes.Text(binary.AppendVarint(b, int64(vf.Minor)), vf.BusID)
				}
			}
		}
	}
	for _, size := range slices.Sorted(maps.Keys(i.Partitions)) {
		b = binary.AppendUvarint(binary.AppendVarint(b, int64(size)), uint64(len(i.Partitions[size])))
		for _, p := range i.Partitions[size] {
			b = binary.AppendVarint(binary.AppendVarint(b, int64(p.Score)), p.Bandwidth)
			for _, minor := range p.Minors {
				b = binary.AppendVarint(b, int64(minor))
			}
		}
	}
	return string(b)
}
