// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	schedulertesting "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/test/benchmark/insession"
)

// Claims are made from the template for devices of the class, which are all that nodes have.
const (
	deviceClass    = "gpu"
	deviceTemplate = "gpu"
)

// deviceObjects are the devices of nodes, and a claim of one for each pod.
func (s shape) deviceObjects() []runtime.Object {
	objects := []runtime.Object{schedulertesting.DeviceClass(deviceClass, fmt.Sprintf("device.driver == %q", schedulertesting.DeviceDriver))}
	var devices []string
	for i := range s.devices {
		devices = append(devices, fmt.Sprintf("gpu-%d model=h100 uuid=%d", i, i))
	}
	for _, node := range s.nodeList() {
		objects = append(objects, schedulertesting.NodeDevices(node.Name, devices...))
	}
	for gang := range s.gangs {
		for i := range s.gangSize {
			pod := schedulertesting.MakePod().Name(podName(gang, i)).Obj()
			objects = append(objects, schedulertesting.DeviceClaimFor(pod, deviceTemplate, schedulertesting.DeviceRequest("gpu", deviceClass, 1)))
		}
	}
	return objects
}

// withDevices has the side's plugin for devices look for them: ours, or upstream's predicates.
func (s *side) withDevices(conf string) string {
	const predicates = "  - name: predicates\n"
	arguments := "    arguments:\n"
	conf = strings.Replace(conf, predicates+arguments, predicates, 1) // which are given again
	conf = strings.Replace(conf, predicates, fmt.Sprintf("%s%s      predicate.DynamicResourceAllocationEnable: %v\n", predicates, arguments, s.Name == insession.Upstream), 1)
	if s.Name == insession.Ours {
		conf += "  - name: dynamicresources\n"
	}
	return conf
}
