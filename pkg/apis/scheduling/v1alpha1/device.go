// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Device tells of all devices of one node, whose name it has. The node's agent writes it.
//
// +genclient
// +genclient:nonNamespaced
// +genclient:noStatus
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
type Device struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec DeviceSpec `json:"spec,omitempty"`
	// Nobody reads it here: who has what is in the annotations of pods.
	Status DeviceStatus `json:"status,omitempty"`
}

// DeviceList is a list of Device objects.
//
// +kubebuilder:object:root=true
type DeviceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Device `json:"items"`
}

// DeviceSpec is what the node has.
type DeviceSpec struct {
	Devices []DeviceInfo `json:"devices,omitempty"`
}

// DeviceType is a kind of device.
type DeviceType string

// The types of devices that pods can ask for.
const (
	GPU  DeviceType = "gpu"
	RDMA DeviceType = "rdma"
	FPGA DeviceType = "fpga"
)

// DeviceInfo is one device.
type DeviceInfo struct {
	Type DeviceType `json:"type,omitempty"`
	// The device's own identity: a GPU's UUID, a NIC's bus ID.
	UUID string `json:"id,omitempty"`
	// The number by which the node's driver knows the device, unique among the node's devices of its type; from 0.
	Minor *int32 `json:"minor,omitempty"`
	// The slot of the board that the device sits in.
	ModuleID *int32 `json:"moduleID,omitempty"`
	// A device that is not healthy is given to nobody; who has it keeps it.
	//
	// +kubebuilder:default=false
	Health bool `json:"health"`
	// What the selectors of pods' hints choose by.
	Labels map[string]string `json:"labels,omitempty"`
	// How much of each resource the device has.
	Resources v1.ResourceList `json:"resources,omitempty"`
	// Where on the board the device is; absent when nobody knows.
	Topology *DeviceTopology `json:"topology,omitempty"`
	// The virtual functions of a NIC.
	VFGroups []VirtualFunctionGroup `json:"vfGroups,omitempty"`
	// Why the device is as healthy as it is.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DeviceTopology is where on the board a device is.
type DeviceTopology struct {
	// The CPU socket.
	SocketID int32 `json:"socketID"`
	// The NUMA node, numbered over all sockets.
	NodeID int32 `json:"nodeID"`
	// The PCIe switch or root, named over all NUMA nodes.
	PCIEID string `json:"pcieID"`
	// The device's address, domain:bus:device.function.
	BusID string `json:"busID,omitempty"`
}

// VirtualFunctionGroup is virtual functions with labels in common.
type VirtualFunctionGroup struct {
	// What the VF selectors of pods' hints choose by.
	Labels map[string]string `json:"labels,omitempty"`
	VFs    []VirtualFunction `json:"vfs,omitempty"`
}

// VirtualFunction is one virtual function of a NIC.
type VirtualFunction struct {
	// Its number among those of the NIC, from 0.
	Minor int32 `json:"minor"`
	// Its address, domain:bus:device.function.
	BusID string `json:"busID,omitempty"`
}

// DeviceStatus is who has the devices, if anybody notes it there.
type DeviceStatus struct {
	Allocations []DeviceAllocation `json:"allocations,omitempty"`
}

// DeviceAllocation is who has the devices of a type.
type DeviceAllocation struct {
	Type    DeviceType             `json:"type,omitempty"`
	Entries []DeviceAllocationItem `json:"entries,omitempty"`
}

// DeviceAllocationItem is the devices of one pod.
type DeviceAllocationItem struct {
	// The pod's.
	Name      string `json:"name,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	UUID      string `json:"uuid,omitempty"`
	// The devices'.
	Minors []int32 `json:"minors,omitempty"`
}
