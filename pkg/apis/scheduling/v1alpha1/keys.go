// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Annotations of pods. Their values are JSON.
const (
	// DeviceAllocatedAnnotation lists the devices of a pod by type, one entry per device. The scheduler sets it in the write that binds the pod.
	DeviceAllocatedAnnotation = GroupName + "/device-allocated"
	// DeviceAllocateHintAnnotation narrows which devices a pod may have, by type.
	DeviceAllocateHintAnnotation = GroupName + "/device-allocate-hint"
	// DeviceJointAllocateAnnotation names types of devices that a pod requests on the same PCIe switches.
	DeviceJointAllocateAnnotation = GroupName + "/device-joint-allocate"
	// GPUPartitionSpecAnnotation requests GPUs that are one entry of the node's partition table.
	GPUPartitionSpecAnnotation = GroupName + "/gpu-partition-spec"
)

// GPUPartitionsAnnotation of a Device object is the node's partition table, in JSON: by number of GPUs, the sets of that
// many GPUs that may be allocated together.
const GPUPartitionsAnnotation = GroupName + "/gpu-partitions"

// Labels of nodes and of their Device objects.
const (
	GPUVendorLabel        = "node.koordinator.sh/gpu-vendor"
	GPUModelLabel         = "node.koordinator.sh/gpu-model"
	GPUDriverVersionLabel = "node.koordinator.sh/gpu-driver-version"
	// GPUPartitionPolicyLabel says whether GPUs must be a set in the partition table (PartitionHonor), or should be where
	// possible (PartitionPrefer).
	GPUPartitionPolicyLabel = "node.koordinator.sh/gpu-partition-policy"
)

// Values of GPUPartitionPolicyLabel.
const (
	PartitionHonor  = "Honor"
	PartitionPrefer = "Prefer"
)

// GPUIsolationProviderLabel names the software that isolates shares of a GPU from each other: on a node the installed
// software, on a pod the required software.
const GPUIsolationProviderLabel = "koordinator.sh/gpu-isolation-provider"
