// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Device lists the devices of the node with the same name. The node's agent writes it.
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
	// Ignored: annotations of pods list their devices.
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

// DeviceSpec lists the devices of the node.
type DeviceSpec struct {
	Devices []DeviceInfo `json:"devices,omitempty"`
}

// DeviceType is a kind of device.
type DeviceType string

// The types of devices that pods can request.
const (
	GPU  DeviceType = "gpu"
	RDMA DeviceType = "rdma"
	FPGA DeviceType = "fpga"
)

// DeviceInfo is one device.
type DeviceInfo struct {
	Type DeviceType `json:"type,omitempty"`
	// Unique identity of the device: the UUID of a GPU, the bus ID of a NIC.
	UUID string `json:"id,omitempty"`
	// Number of the device for the node's driver, unique among devices of its type, from 0.
	Minor *int32 `json:"minor,omitempty"`
	// Slot of the device on the board.
	ModuleID *int32 `json:"moduleID,omitempty"`
	// Whether the device is healthy. Unhealthy devices are not allocated; pods keep the ones that they have.
	//
	// +kubebuilder:default=false
	Health bool `json:"health"`
	// Labels that selectors of pods' hints match.
	Labels map[string]string `json:"labels,omitempty"`
	// Capacity of the device for each resource.
	Resources v1.ResourceList `json:"resources,omitempty"`
	// Location of the device on the board; absent if unknown.
	Topology *DeviceTopology `json:"topology,omitempty"`
	// Virtual functions of a NIC.
	VFGroups []VirtualFunctionGroup `json:"vfGroups,omitempty"`
	// Conditions that explain the health of the device.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DeviceTopology is the location of a device on the board.
type DeviceTopology struct {
	// CPU socket.
	SocketID int32 `json:"socketID"`
	// NUMA node, numbered across all sockets.
	NodeID int32 `json:"nodeID"`
	// PCIe switch or root, unique across NUMA nodes.
	PCIEID string `json:"pcieID"`
	// Address of the device, domain:bus:device.function.
	BusID string `json:"busID,omitempty"`
}

// VirtualFunctionGroup is a set of virtual functions with the same labels.
type VirtualFunctionGroup struct {
	// Labels that VF selectors of pods' hints match.
	Labels map[string]string `json:"labels,omitempty"`
	VFs    []VirtualFunction `json:"vfs,omitempty"`
}

// VirtualFunction is one virtual function of a NIC.
type VirtualFunction struct {
	// Number of the virtual function on the NIC, from 0.
	Minor int32 `json:"minor"`
	// Address of the virtual function, domain:bus:device.function.
	BusID string `json:"busID,omitempty"`
}

// DeviceStatus lists the pods that use the devices, if an agent records them.
type DeviceStatus struct {
	Allocations []DeviceAllocation `json:"allocations,omitempty"`
}

// DeviceAllocation lists the pods that use devices of a type.
type DeviceAllocation struct {
	Type    DeviceType             `json:"type,omitempty"`
	Entries []DeviceAllocationItem `json:"entries,omitempty"`
}

// DeviceAllocationItem lists the devices of one pod.
type DeviceAllocationItem struct {
	// Name, namespace and UID of the pod.
	Name      string `json:"name,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	UUID      string `json:"uuid,omitempty"`
	// Minors of the devices.
	Minors []int32 `json:"minors,omitempty"`
}
