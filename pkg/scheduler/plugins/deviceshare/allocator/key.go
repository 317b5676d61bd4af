// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"maps"
	"slices"

	"github.com/volcano-prebind/volcano-prebind/internal/keybytes"
)

// AppendUse appends to b a key that describes how pods use the devices. If two states have equal keys from AppendUse,
// and their inventories have equal keys from Key, a request fits into both states or into neither.
func (s *State) AppendUse(b []byte) []byte {
	for t := range s.Devices {
		for i := range s.Devices[t] {
			b = keybytes.Int(b, s.used[t][i][:]...)
			b = keybytes.Int(b, s.exclusive[t][i].device, s.exclusive[t][i].pcie, len(s.usedVFs[t][i]))
			b = keybytes.Text(b, s.usedVFs[t][i]...)
		}
	}
	return b
}

// Key returns a key of everything in the inventory that the result of Allocate may depend on. Only the name of the node
// and the UUIDs of its devices are left out.
func (i *Inventory) Key() string {
	b := keybytes.Text(nil, i.PartitionPolicy, i.Vendor, i.Model, i.IsolationProvider)
	b = keybytes.Int(keybytes.Int(b, len(i.numaIDs)), i.numaIDs...)
	for t := range i.Devices {
		b = keybytes.Int(b, len(i.Devices[t]), i.LeftOut[t])
		for _, d := range i.Devices[t] {
			b = keybytes.Flag(keybytes.Int(b, d.Minor), d.Healthy)
			b = keybytes.Int(keybytes.Int(b, d.Total[:]...), d.PCIe, d.NUMA, d.affinity)
			b = keybytes.Int(keybytes.Map(b, d.Labels), len(d.VFGroups))
			for _, group := range d.VFGroups {
				b = keybytes.Int(keybytes.Map(b, group.Labels), len(group.VFs))
				for _, vf := range group.VFs {
					b = keybytes.Text(keybytes.Int(b, vf.Minor), vf.BusID)
				}
			}
		}
	}
	for _, size := range slices.Sorted(maps.Keys(i.Partitions)) {
		b = keybytes.Int(b, size, len(i.Partitions[size]))
		for _, p := range i.Partitions[size] {
			b = keybytes.Int(keybytes.Int(keybytes.Int(b, p.Score), p.Bandwidth), p.Minors...)
		}
	}
	return string(b)
}
