// SPDX-License-Identifier: Apache-2.0

package testing

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// DeviceDriver is the driver of all built DRA devices, and the domain of their attributes.
const DeviceDriver = "dra.example.com"

// DeviceClass returns a device class. A device belongs to the class if all of the CEL expressions accept the device.
func DeviceClass(name string, expressions ...string) *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("class-" + name), ResourceVersion: "1"},
		Spec:       resourcev1.DeviceClassSpec{Selectors: selectors(expressions)},
	}
}

func selectors(expressions []string) []resourcev1.DeviceSelector {
	var list []resourcev1.DeviceSelector
	for _, expression := range expressions {
		list = append(list, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: expression}})
	}
	return list
}

// NodeDevices returns the ResourceSlice of a node with the devices. Each device is a string with its name and
// attributes, such as "gpu-0" or "gpu-0 model=a zone=b". The pool has the node's name.
func NodeDevices(node string, devices ...string) *resourcev1.ResourceSlice {
	slice := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-devices", UID: types.UID("slice-" + node), ResourceVersion: "1"},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: DeviceDriver, NodeName: &node,
			Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		},
	}
	for _, device := range devices {
		fields := strings.Fields(device)
		d := resourcev1.Device{Name: fields[0], Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}}
		for _, attribute := range fields[1:] {
			name, value, _ := strings.Cut(attribute, "=")
			d.Attributes[resourcev1.QualifiedName(name)] = resourcev1.DeviceAttribute{StringValue: &value}
		}
		slice.Spec.Devices = append(slice.Spec.Devices, d)
	}
	return slice
}

// DeviceRequest returns a request for count devices of the class; all of the CEL expressions must accept each device.
func DeviceRequest(name, class string, count int64, expressions ...string) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{Name: name, Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count, Selectors: selectors(expressions),
	}}
}

// DeviceClaim returns a ResourceClaim in Namespace with the requests. No devices are allocated to it.
func DeviceClaim(name string, requests ...resourcev1.DeviceRequest) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: Namespace, UID: types.UID(Namespace + "-claim-" + name), ResourceVersion: "1", CreationTimestamp: Created,
		},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: requests}},
	}
}

// DeviceClaimFor returns the ResourceClaim that Kubernetes would create for the pod from the named template. MadeClaim
// adds a reference to a claim with the same name to the pod.
func DeviceClaimFor(pod *v1.Pod, template string, requests ...resourcev1.DeviceRequest) *resourcev1.ResourceClaim {
	claim := DeviceClaim(pod.Name+"-"+template, requests...)
	claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true)}}
	return claim
}

// MadeClaim adds a reference to a ResourceClaimTemplate to the pod, as if the pod's ResourceClaim had already been
// created from the template. DeviceClaimFor returns this ResourceClaim.
func (b *PodBuilder) MadeClaim(template string) *PodBuilder {
	name := b.pod.Name + "-" + template
	b.pod.Spec.ResourceClaims = append(b.pod.Spec.ResourceClaims, v1.PodResourceClaim{Name: template, ResourceClaimTemplateName: &template})
	b.pod.Status.ResourceClaimStatuses = append(b.pod.Status.ResourceClaimStatuses, v1.PodResourceClaimStatus{Name: template, ResourceClaimName: &name})
	resources := &b.pod.Spec.Containers[0].Resources
	resources.Claims = append(resources.Claims, v1.ResourceClaim{Name: template})
	return b
}
