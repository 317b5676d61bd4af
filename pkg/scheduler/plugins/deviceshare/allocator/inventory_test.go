// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
)

// places returns the PCIe root and the NUMA node of each device of the type, as numbers.
func places(i *Inventory, t Type) string {
	var all []string
	for d := range i.Devices[t] {
		all = append(all, fmt.Sprintf("%d:%d/%d", i.Devices[t][d].Minor, i.Devices[t][d].PCIe, i.Devices[t][d].NUMA))
	}
	return strings.Join(all, " ")
}

func TestPlacesOfDevices(t *testing.T) {
	tests := map[string]struct {
		build func(d *deviceObject)
		gpus  string
		nics  string
	}{
		"roots are numbered in the order of minors": {
			build: func(d *deviceObject) { d.gpu(1, 1, "b"); d.gpu(0, 0, "c"); d.nic(0, 1, "b") },
			gpus:  "0:0/0 1:1/1", nics: "0:1/1",
		},
		"roots that are numbered from 0 on each NUMA node": {
			build: func(d *deviceObject) { d.gpu(0, 0, "0"); d.gpu(1, 1, "0"); d.nic(0, 1, "0") },
			gpus:  "0:0/0 1:1/1", nics: "0:1/1",
		},
		"a NIC without a NUMA node has its root's": {
			build: func(d *deviceObject) {
				d.gpu(0, 0, "a")
				d.gpu(1, 1, "b")
				d.nic(0, 0, "b").Topology.NodeID = -1
			},
			gpus: "0:0/0 1:1/1", nics: "0:1/1",
		},
		"a NIC without a NUMA node on a root of which there are two": {
			build: func(d *deviceObject) {
				d.gpu(0, 0, "0")
				d.gpu(1, 1, "0")
				d.nic(0, 0, "0").Topology.NodeID = -1
			},
			gpus: "0:0/0 1:1/1", nics: "0:2/-1",
		},
		"nothing is known": {
			build: func(d *deviceObject) { d.gpu(0, -1, ""); d.nic(0, 0, "").Topology.NodeID = -1 },
			gpus:  "0:-1/-1", nics: "0:-1/-1",
		},
		"only the NUMA node is known": {
			build: func(d *deviceObject) { d.gpu(0, 3, ""); d.gpu(1, 2, "") },
			gpus:  "0:-1/0 1:-1/1",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := makeDevice()
			tt.build(d)
			i, err := NewInventory(&d.Device, nil, InventoryOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tt.gpus, tt.nics}, []string{places(i, GPU), places(i, RDMA)}); diff != "" {
				t.Errorf("GPUs and NICs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAffinityKeyStandsForThePCIeRoot(t *testing.T) {
	// As on GB300 boards, each NIC has its own PCIe root, and a data-direct root that it shares with its GPU.
	d := makeDevice()
	for minor := range int32(4) {
		d.gpu(minor, minor/2, fmt.Sprint("gpu", minor/2)).Labels = map[string]string{"data-direct": fmt.Sprint(minor)}
	}
	for minor := range int32(4) {
		d.nic(minor, 1-minor/2, fmt.Sprint("nic", minor)).Labels = map[string]string{"data-direct": fmt.Sprint(3 - minor)}
	}
	r := parse(t, makePod(list(nvidiaName, "1", rdmaName, "1"), "device-joint-allocate", jointPCIe))
	for key, want := range map[string]string{"data-direct": "gpu 1; rdma 2", "": "Device Joint-Allocate rules violation: 3 GPUs free, none with an RDMA NIC on the same PCIe switch",
		"other": "Device Joint-Allocate rules violation"} {
		i, err := NewInventory(&d.Device, nil, InventoryOptions{AffinityKey: key})
		if err != nil {
			t.Fatal(err)
		}
		check(t, inUse(NewState(i), whole(0)), r, Options{}, want, key != "data-direct")
	}
	// The scope of GPUs still depends on their PCIe root.
	i, _ := NewInventory(&d.Device, nil, InventoryOptions{AffinityKey: "data-direct"})
	pair := parse(t, makePod(list(nvidiaName, "2", rdmaName, "1"), "device-joint-allocate", jointPCIe, "device-allocate-hint", `{"gpu":{"requiredTopologyScope":"PCIe"}}`))
	check(t, inUse(NewState(i), whole(0)), pair, Options{}, "gpu 2,3; rdma 0,1", false)
}

func TestUnhealthyDevicesHaveNothing(t *testing.T) {
	d := nodeA()
	d.Spec.Devices[3].Health = false
	s := d.state(t).With(part(40, 3))
	if got := s.Devices[GPU][3].Total; !got.IsZero() {
		t.Errorf("an unhealthy GPU has amounts %v, want none", got)
	}
	if got, want := s.Used(GPU, 3), part(40, 3)[GPU][0].Amounts; got != want {
		t.Errorf("the used amounts of an unhealthy GPU are %v, want %v, because its pods still use it", got, want)
	}
}

func TestLabelsOfTheNodeAndItsDeviceObject(t *testing.T) {
	d := makeDevice()
	d.Labels[v1alpha1.GPUModelLabel] = "H800"
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.GPUModelLabel: "A100", v1alpha1.GPUVendorLabel: "nvidia",
		v1alpha1.GPUIsolationProviderLabel: "HAMi-core", v1alpha1.GPUPartitionPolicyLabel: "Honor"}}}
	got, err := NewInventory(&d.Device, node, InventoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	type labels struct {
		Vendor, Model, IsolationProvider, PartitionPolicy string
	}
	want := labels{"nvidia", "H800", "HAMi-core", "Honor"}
	if diff := cmp.Diff(want, labels{got.Vendor, got.Model, got.IsolationProvider, got.PartitionPolicy}); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestBuiltInPartitions(t *testing.T) {
	for name, tt := range map[string]struct {
		vendor, model string
		gpus          int32
		want          bool
	}{
		"H100":                {"nvidia", "H100", 8, true},
		"H20, vendor unknown": {"", "H20", 8, true},
		"A100":                {"nvidia", "A100", 8, false},
		"another vendor":      {"huawei", "H100", 8, false},
		"four GPUs":           {"nvidia", "H100", 4, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := makeDevice()
			d.Labels[v1alpha1.GPUVendorLabel], d.Labels[v1alpha1.GPUModelLabel] = tt.vendor, tt.model
			for minor := range tt.gpus {
				d.gpu(minor, -1, "")
			}
			if got := d.state(t).Partitions != nil; got != tt.want {
				t.Errorf("the node has partitions: %v, want %v", got, tt.want)
			}
		})
	}
}

// TestCapacityIncludesBrokenDevices: unhealthy devices, which pods may still use, count with the amounts of healthy
// ones, because they report none.
func TestCapacityIncludesBrokenDevices(t *testing.T) {
	d := makeDevice()
	for minor := range int32(3) {
		d.gpu(minor, 0, "a")
	}
	d.gpu(3, 0, "a").Health = false
	d.nic(0, 0, "a")
	want := Amounts{Core: 400, MemoryRatio: 400, Memory: 4 * gpuMemoryB, RDMAShare: 100}
	if diff := cmp.Diff(want, d.state(t).Capacity()); diff != "" {
		t.Errorf("capacity (-want +got):\n%s", diff)
	}
}
