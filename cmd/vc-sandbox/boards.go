// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
)

// The requests of the pods in the demo step withDevices: each pod wants two GPUs and the NIC on their PCIe switch.
const (
	deviceGPUs  = "koordinator.sh/gpu"
	deviceNICs  = "koordinator.sh/rdma"
	wholeDevice = "100"
	oneSwitch   = `{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}`
)

// withDevices shows gangs with devices. Two nodes have 8 GPUs and 4 NICs each, and a pod uses one of the GPUs. Each
// member of a gang gets the two GPUs and the NIC of one PCIe switch, in the write that binds the member.
func (s *story) withDevices(ctx context.Context) error {
	c := s.clusters[0]
	boards := []*v1alpha1.Device{controlplane.EightGPUs(c.nodes[0].Name), controlplane.EightGPUs(c.nodes[1].Name)}
	if err := s.sandbox.cp.CreateDevices(ctx, boards...); err != nil {
		return err
	}
	dev := newGang("notebook", c)
	dev.members, dev.asks = 1, corev1.ResourceList{deviceGPUs: resource.MustParse(wholeDevice)}
	if err := s.submit(ctx, dev); err != nil {
		return err
	}
	if _, err := s.awaitBound(ctx, time.Now(), dev); err != nil {
		return err
	}
	g := newGang("train-f", c)
	g.members, g.joint = 5, oneSwitch
	g.asks = corev1.ResourceList{deviceGPUs: resource.MustParse("200"), deviceNICs: resource.MustParse(wholeDevice)}
	s.say("%s: %d pods, two GPUs each with the NIC of their PCIe switch; two nodes have 8 GPUs and 4 NICs each, and %s uses one of the GPUs", g.name, g.members, dev.name)
	began := time.Now()
	if err := s.submit(ctx, g); err != nil {
		return err
	}
	took, err := s.awaitBound(ctx, began, g)
	if err != nil {
		return err
	}
	users, err := s.devicesInUse(dev, g)
	if err != nil {
		return err
	}
	s.tick("all %d bound %s after the gang was created, with these devices:", g.members, short(took))
	if err := drawBoards(s.out, boards, users); err != nil {
		return err
	}
	s.addRow("gang "+g.name, g, took, "each rank has a PCIe switch of its own")
	for rank := range g.members {
		has := users.of(g.pod(rank).Name)
		if err := checkSwitch(boards, has); err != nil {
			return fmt.Errorf("rank %d of gang %s has %s: %w", rank, g.name, has, err)
		}
		s.rows = append(s.rows, row{what: fmt.Sprintf("  rank %d", rank), wanted: 1, bound: 1, where: has[0].node, took: took, why: has.String()})
	}
	return nil
}

// device is a device of one node. Its type and minor are the same as in Device objects and in the annotation
// device-allocated.
type device struct {
	node  string
	kind  v1alpha1.DeviceType
	minor int32
}

// devices are the devices of one pod.
type devices []device

func (d devices) String() string {
	var gpus, nics []string
	for _, device := range d {
		if device.kind == v1alpha1.GPU {
			gpus = append(gpus, strconv.Itoa(int(device.minor)))
		} else {
			nics = append(nics, strconv.Itoa(int(device.minor)))
		}
	}
	return fmt.Sprintf("GPUs %s and NIC %s", strings.Join(gpus, ", "), strings.Join(nics, ", "))
}

// usage maps each device to the name of the pod that uses the device.
type usage map[device]string

// of returns the pod's devices, sorted by type and minor.
func (u usage) of(pod string) devices {
	var all devices
	for device, user := range u {
		if user == pod {
			all = append(all, device)
		}
	}
	slices.SortFunc(all, func(a, b device) int {
		return strings.Compare(fmt.Sprint(a.kind, a.minor), fmt.Sprint(b.kind, b.minor))
	})
	return all
}

// devicesInUse reads from the annotations of the gangs' pods which pod uses which devices. It returns an error if two
// pods use the same device.
func (s *story) devicesInUse(gangs ...gang) (usage, error) {
	users := usage{}
	for _, g := range gangs {
		_, pods := s.view.placed(g.labels())
		for _, pod := range pods {
			if err := users.add(pod); err != nil {
				return nil, err
			}
		}
	}
	return users, nil
}

func (u usage) add(pod *corev1.Pod) error {
	var given map[v1alpha1.DeviceType][]struct {
		Minor int32 `json:"minor"`
	}
	if err := json.Unmarshal([]byte(pod.Annotations[v1alpha1.DeviceAllocatedAnnotation]), &given); err != nil {
		return fmt.Errorf("reading which devices pod %s has: %w", pod.Name, err)
	}
	for kind, list := range given {
		for _, one := range list {
			what := device{pod.Spec.NodeName, kind, one.Minor}
			if other, taken := u[what]; taken {
				return fmt.Errorf("%s %d of node %s is allocated to pods %s and %s", kind, one.Minor, pod.Spec.NodeName, other, pod.Name)
			}
			u[what] = pod.Name
		}
	}
	return nil
}

// checkSwitch returns an error unless the devices in has are two GPUs and a NIC on the same PCIe switch.
func checkSwitch(boards []*v1alpha1.Device, has devices) error {
	kinds, switches := map[v1alpha1.DeviceType]int{}, map[string]bool{}
	for _, board := range boards {
		for _, info := range board.Spec.Devices {
			if slices.Contains(has, device{board.Name, info.Type, *info.Minor}) {
				kinds[info.Type]++
				switches[board.Name+" "+info.Topology.PCIEID] = true
			}
		}
	}
	if kinds[v1alpha1.GPU] != 2 || kinds[v1alpha1.RDMA] != 1 || len(switches) != 1 {
		return fmt.Errorf("want two GPUs and a NIC of one PCIe switch, found %d switches", len(switches))
	}
	return nil
}

// drawBoards draws the nodes' PCIe switches side by side, each with its devices and the pods that use them.
func drawBoards(out io.Writer, boards []*v1alpha1.Device, users usage) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, board := range boards {
		var switches []string
		cells := map[string]map[v1alpha1.DeviceType][]string{}
		for _, info := range board.Spec.Devices {
			at := fmt.Sprintf("NUMA %d %s", info.Topology.NodeID, info.Topology.PCIEID)
			if cells[at] == nil {
				switches, cells[at] = append(switches, at), map[v1alpha1.DeviceType][]string{}
			}
			user := users[device{board.Name, info.Type, *info.Minor}]
			if user == "" {
				user = "·"
			}
			cells[at][info.Type] = append(cells[at][info.Type], fmt.Sprintf("%d %s", *info.Minor, user))
		}
		fmt.Fprintf(w, "      %s\t│ %s\n", board.Name, strings.Join(switches, "\t│ "))
		for _, line := range []struct {
			name string
			kind v1alpha1.DeviceType
		}{{"GPU", v1alpha1.GPU}, {"NIC", v1alpha1.RDMA}} {
			for i := range len(cells[switches[0]][line.kind]) {
				fmt.Fprintf(w, "        %s", line.name)
				for _, at := range switches {
					fmt.Fprintf(w, "\t│ %s", cells[at][line.kind][i])
				}
				fmt.Fprintln(w)
			}
		}
	}
	return w.Flush()
}
