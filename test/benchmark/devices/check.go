// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	vgpu "volcano.sh/volcano/pkg/scheduler/api/devices/nvidia/vgpu"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	schedulertesting "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
	"github.com/volcano-prebind/volcano-prebind/test/benchmark/insession"
)

// given is one device in an annotation.
type given struct {
	Minor     int               `json:"minor"`
	UUID      string            `json:"id"`
	Resources map[string]string `json:"resources"`
}

// of returns the amount of the resource.
func (g given) of(resource string) (int, error) {
	amount, err := strconv.Atoi(g.Resources[resource])
	if err != nil {
		return 0, fmt.Errorf("device %d: %s is %q", g.Minor, resource, g.Resources[resource])
	}
	return amount, nil
}

// books has the assigned amount of each device, by its UUID and the resource.
type books map[string]int

// enter adds the assigned amount. It returns an error if the sum exceeds a whole device.
func (b books) enter(g given, resource string) (int, error) {
	amount, err := g.of(resource)
	if err != nil {
		return 0, err
	}
	if b[g.UUID+" "+resource] += amount; b[g.UUID+" "+resource] > 100 {
		return 0, fmt.Errorf("of %s %d%% of %s is given", g.UUID, b[g.UUID+" "+resource], resource)
	}
	return amount, nil
}

// check returns an error if the binds that this project's action handed over are wrong: a device that its node does not
// have, a device above its capacity, a pod with other devices than requested, a GPU without its NIC, or a gang that is
// placed in part or in two clusters.
func check(w work, handed map[string]sessiontest.Bind) error {
	has := map[string]string{} // the node of each device
	for _, device := range w.devices() {
		for _, info := range device.Spec.Devices {
			has[info.UUID] = device.Name
		}
	}
	used := books{}
	for gang := range w.gangs {
		for i := range w.gangSize {
			bind, ok := handed[schedulertesting.Namespace+"/"+podName(gang, i)]
			if !ok {
				continue
			}
			if err := checkPod(w.askOf(gang), bind, has, used); err != nil {
				return fmt.Errorf("pod %s on node %s: %w", podName(gang, i), bind.Node, err)
			}
		}
	}
	return checkGangs(w, handed)
}

func checkPod(a ask, bind sessiontest.Bind, has map[string]string, used books) error {
	var devices map[string][]given
	annotation := bind.Decided[v1alpha1.DeviceAllocatedAnnotation]
	if err := json.Unmarshal([]byte(annotation), &devices); err != nil {
		return fmt.Errorf("what it is given (%q) cannot be read: %w", annotation, err)
	}
	for kind, list := range devices {
		for _, g := range list {
			if has[g.UUID] != bind.Node {
				return fmt.Errorf("%s %d (%q) is none of the node's", kind, g.Minor, g.UUID)
			}
		}
	}
	switches, err := checkGPUs(a, devices["gpu"], used)
	if err != nil {
		return err
	}
	return checkNICs(a, devices["rdma"], switches, used)
}

// checkGPUs returns the PCIe switches of the GPUs.
func checkGPUs(a ask, gpus []given, used books) (map[int]bool, error) {
	sum, switches := 0, map[int]bool{}
	for _, g := range gpus {
		core, err := used.enter(g, gpuCore)
		if err != nil {
			return nil, err
		}
		memory, err := used.enter(g, gpuRatio)
		if err != nil {
			return nil, err
		}
		if memory != core {
			return nil, fmt.Errorf("of GPU %d it has %d%% of the memory and %d%% of the cores", g.Minor, memory, core)
		}
		sum += core
		switches[g.Minor/gpusPerSwitch] = true
	}
	if sum != a.gpu || len(gpus) != (a.gpu+99)/100 {
		return nil, fmt.Errorf("it has %d%% of GPUs on %d, asks for %d%%", sum, len(gpus), a.gpu)
	}
	return switches, nil
}

// checkNICs checks that the pod has the requested share of one NIC on each of the switches.
func checkNICs(a ask, list []given, switches map[int]bool, used books) error {
	nics := map[int]bool{}
	for _, g := range list {
		amount, err := used.enter(g, rdma)
		if err != nil {
			return err
		}
		if amount != a.nic {
			return fmt.Errorf("of NIC %d it has %d%%, asks for %d%%", g.Minor, amount, a.nic)
		}
		nics[g.Minor] = true
	}
	for at := range switches {
		if a.nic > 0 && !nics[at] {
			return fmt.Errorf("it has a GPU on PCIe switch %d, and no NIC", at)
		}
	}
	if a.nic > 0 && len(nics) != len(switches) {
		return fmt.Errorf("it has %d NICs for GPUs on %d PCIe switches", len(nics), len(switches))
	}
	return nil
}

// checkGangs returns an error for a gang that is placed in part or in two clusters.
func checkGangs(w work, handed map[string]sessiontest.Bind) error {
	clusterOf := map[string]string{}
	for _, node := range nodeList(w.nodes, w.clusters) {
		clusterOf[node.Name] = node.Labels[insession.ClusterLabel]
	}
	for gang := range w.gangs {
		placed, clusters := 0, map[string]bool{}
		for i := range w.gangSize {
			if bind, ok := handed[schedulertesting.Namespace+"/"+podName(gang, i)]; ok {
				placed++
				clusters[clusterOf[bind.Node]] = true
			}
		}
		if placed != 0 && placed != w.gangSize {
			return fmt.Errorf("%d of the %d pods of gang %s were placed", placed, w.gangSize, gangName(gang))
		}
		if len(clusters) > 1 {
			return fmt.Errorf("gang %s was placed in %d clusters", gangName(gang), len(clusters))
		}
	}
	return nil
}

// checkShared returns an error for a wrong commit of upstream: a GPU that is assigned twice although every pod
// requests a whole one, a pod without a GPU, or a gang that is placed in part.
func checkShared(w work, handed map[string]sessiontest.Bind) error {
	owners := map[string]string{}
	for pod, bind := range handed {
		gpu, _, _ := strings.Cut(bind.Decided[vgpu.AssignedIDsAnnotations], ",")
		if !strings.HasPrefix(gpu, bind.Node+"-") {
			return fmt.Errorf("pod %s was given GPU %q on node %s", pod, gpu, bind.Node)
		}
		if other, ok := owners[gpu]; ok {
			return fmt.Errorf("pods %s and %s were both given GPU %s", min(other, pod), max(other, pod), gpu)
		}
		owners[gpu] = pod
	}
	return checkGangs(w, handed)
}
