// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	vgpu "volcano.sh/volcano/pkg/scheduler/api/devices/nvidia/vgpu"

	"github.com/volcano-prebind/volcano-prebind/test/benchmark/insession"
)

func TestAllClustersButOneLackANIC(t *testing.T) {
	w := work{nodes: 12, gangs: 1, gangSize: 3, asks: []ask{{gpu: 800, nic: 100}}, clusters: 4}
	devices := map[string]int{}
	for _, device := range w.devices() {
		devices[device.Name] = len(device.Spec.Devices)
	}
	whole := map[string]bool{}
	for _, node := range nodeList(w.nodes, w.clusters) {
		cluster := node.Labels[insession.ClusterLabel]
		if _, known := whole[cluster]; !known {
			whole[cluster] = true
		}
		whole[cluster] = whole[cluster] && devices[node.Name] == gpusPerNode+nicsPerNode
	}
	for cluster, is := range whole {
		if is != (cluster == "ib-2") {
			t.Errorf("cluster %s has all its NICs: %t", cluster, is)
		}
	}
}

func TestNodesReportAllGPUsToUpstream(t *testing.T) {
	node := nodeList(1, 0)[0]
	shareOut(node)
	gpus := vgpu.NewGPUDevices(node.Name, node)
	if gpus == nil || len(gpus.Device) != gpusPerNode {
		t.Fatalf("got %+v, want %d GPUs", gpus, gpusPerNode)
	}
}

func TestDeviceUseDiffersOnEveryNode(t *testing.T) {
	for _, use := range uses {
		if use.pod == nil {
			continue
		}
		seen := map[string]bool{}
		for i := range 9 * 9 * 9 * 9 {
			for _, annotation := range use.pod("n", i).Annotations {
				if seen[annotation] {
					t.Fatalf("%s: the devices of node %d are in use as another's: %s", use.name, i, annotation)
				}
				seen[annotation] = true
			}
		}
	}
}
