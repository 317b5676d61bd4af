// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"reflect"
	"testing"
)

// TestKeysContainEveryField fails if a field was added to an inventory or a state. Add the field to the key if it can
// change the answer to a request, and then to this list.
func TestKeysContainEveryField(t *testing.T) {
	for of, fields := range map[reflect.Type][]string{
		reflect.TypeFor[Inventory]():  {"Node", "Devices", "LeftOut", "PCIes", "NUMANodes", "numaIDs", "Partitions", "PartitionPolicy", "Vendor", "Model", "IsolationProvider"},
		reflect.TypeFor[Device]():     {"Minor", "UUID", "Healthy", "Total", "Labels", "PCIe", "NUMA", "affinity", "VFGroups"},
		reflect.TypeFor[Partition]():  {"Minors", "mask", "Score", "Bandwidth"},
		reflect.TypeFor[State]():      {"Inventory", "used", "usedVFs", "exclusive", "exclusives", "empty", "pcies", "numaNodes", "roots"},
		reflect.TypeFor[exclusions](): {"device", "pcie"},
	} {
		var have []string
		for field := range of.Fields() {
			have = append(have, field.Name)
		}
		if !reflect.DeepEqual(have, fields) {
			t.Errorf("%v has fields %v, and the test lists %v", of, have, fields)
		}
	}
	base := func(change func(*Inventory)) string {
		i := nodeA().state(t).Inventory
		change(i)
		return i.Key()
	}
	plain := base(func(*Inventory) {})
	if same := base(func(i *Inventory) { i.Node, i.Devices[GPU][0].UUID = "other", "other" }); same != plain {
		t.Error("inventories that differ only in names have different keys")
	}
	for name, change := range map[string]func(*Inventory){
		"minor":       func(i *Inventory) { i.Devices[GPU][7].Minor = 9 },
		"health":      func(i *Inventory) { i.Devices[GPU][0].Healthy = false },
		"total":       func(i *Inventory) { i.Devices[GPU][0].Total[Memory]-- },
		"label":       func(i *Inventory) { i.Devices[GPU][0].Labels = map[string]string{"a": "b"} },
		"PCIe":        func(i *Inventory) { i.Devices[GPU][0].PCIe = 3 },
		"NUMA":        func(i *Inventory) { i.Devices[GPU][0].NUMA = 1 },
		"affinity":    func(i *Inventory) { i.Devices[GPU][0].affinity = 1 },
		"NUMA number": func(i *Inventory) { i.numaIDs = []int{1, 0} },
		"VF":          func(i *Inventory) { i.Devices[RDMA][0].VFGroups[0].VFs[0].BusID = "x" },
		"VF label":    func(i *Inventory) { i.Devices[RDMA][0].VFGroups[0].Labels = map[string]string{"a": "b"} },
		"partition":   func(i *Inventory) { i.Partitions = map[int][]Partition{1: {{Minors: []int32{0}}}} },
		"policy":      func(i *Inventory) { i.PartitionPolicy = "Honor" },
		"vendor":      func(i *Inventory) { i.Vendor = "v" },
		"model":       func(i *Inventory) { i.Model = "m" },
		"isolation":   func(i *Inventory) { i.IsolationProvider = "p" },
	} {
		if base(change) == plain {
			t.Errorf("an inventory with another %s has the same key", name)
		}
	}
	state := nodeA().state(t)
	unused := string(state.AppendUse(nil))
	for name, a := range map[string]*Allocation{
		"amount":    {GPU: {{Minor: 0, Amounts: Amounts{Core: 1}}}},
		"VF":        {RDMA: {{Minor: 1, VFs: []VF{{BusID: "0000:1f:00.2"}}}}},
		"exclusive": {GPU: {{Minor: 0, Exclusive: PCIeLevel}}},
	} {
		if string(state.With(a).AppendUse(nil)) == unused {
			t.Errorf("a state with another %s in use has the same key", name)
		}
		if string(state.With(a).Without(a).AppendUse(nil)) != unused {
			t.Errorf("after %s was released, the key differs from that of an unused state", name)
		}
	}
}
