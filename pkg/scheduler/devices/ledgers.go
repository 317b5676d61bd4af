// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcdevices "volcano.sh/volcano/pkg/scheduler/api/devices"
	"volcano.sh/volcano/pkg/scheduler/api/devices/ascend/hami"
	"volcano.sh/volcano/pkg/scheduler/api/devices/ascend/mindcluster/ascend310p/vnpu"
	"volcano.sh/volcano/pkg/scheduler/api/devices/config"
	"volcano.sh/volcano/pkg/scheduler/api/devices/nvidia/gpushare"
	"volcano.sh/volcano/pkg/scheduler/api/devices/nvidia/vgpu"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/deviceshare"
)

// kind is a kind of devices that upstream shares among pods. Each node has a ledger for each kind in its field Others.
type kind struct {
	name string
	// holds is the annotation of a pod that lists its devices. Ledgers are computed from this annotation only.
	holds string
	asks  func(pod *v1.Pod) bool
	// lock is the annotation of a node that locks it; empty if nodes are not locked. lockStays reports whether a pod needs
	// the lock until it has its devices, and not only while they are chosen.
	lock      string
	lockStays bool
}

// PodKeys returns the labels and annotations that pods use to request, hold and share devices of upstream's kinds. A key
// that ends in a slash stands for all keys with that prefix.
func PodKeys() []string {
	return []string{
		"nvidia.com/", "volcano.sh/vgpu-mode", "volcano.sh/gpu-index",
		"hami.io/", "huawei.com/", "ring-controller.atlas", "vnpu-level", "vnpu-dvpp",
	}
}

// Asker returns a function that reports whether a pod requests devices of an enabled kind.
func Asker() func(pod *v1.Pod) bool {
	kinds := switchedOn()
	return func(pod *v1.Pod) bool { return asks(kinds, pod) }
}

func asks(kinds []kind, pod *v1.Pod) bool {
	return slices.ContainsFunc(kinds, func(k kind) bool { return k.asks(pod) })
}

// switchedOn returns the enabled kinds, which are the same for the whole process. By default none is enabled.
func switchedOn() []kind {
	var kinds []kind
	if gpushare.GpuSharingEnable || gpushare.GpuNumberEnable {
		kinds = append(kinds, kind{
			name: gpushare.DeviceName, holds: gpushare.GPUIndex, asks: (*gpushare.GPUDevices)(nil).HasDeviceRequest,
			lock: lockIf(gpushare.NodeLockEnable, "gpu"), lockStays: true,
		})
	}
	if vgpu.VGPUEnable {
		kinds = append(kinds, kind{
			name: vgpu.DeviceName, holds: vgpu.AssignedIDsAnnotations, asks: (*vgpu.GPUDevices)(nil).HasDeviceRequest,
			lock: lockIf(vgpu.NodeLockEnable, vgpu.DeviceName), lockStays: true,
		})
	}
	if vnpu.AscendMindClusterVNPUEnable {
		kinds = append(kinds, kind{name: vnpu.DeviceName, holds: vnpu.AscendNPUCore, asks: (*vnpu.NPUDevices)(nil).HasDeviceRequest})
	}
	if hami.AscendHAMiVNPUEnable {
		known := config.GetConfig()
		if known == nil {
			known = config.GetDefaultDevicesConfig()
		}
		for _, npu := range known.VNPUs {
			kinds = append(kinds, kind{
				name: npu.CommonWord, holds: vcdevices.InRequestDevices[npu.CommonWord], asks: limits(npu.ResourceName, npu.ResourceMemoryName),
				lock: lockIf(hami.NodeLockEnable, npu.CommonWord),
			})
		}
	}
	return kinds
}

func lockIf(enabled bool, annotation string) string {
	if !enabled {
		return ""
	}
	return annotation
}

// limits returns a function that reports whether a container of a pod has a limit for one of the resources.
func limits(names ...string) func(*v1.Pod) bool {
	return func(pod *v1.Pod) bool {
		for i := range pod.Spec.Containers {
			for _, name := range names {
				if _, ok := pod.Spec.Containers[i].Resources.Limits[v1.ResourceName(name)]; ok {
					return true
				}
			}
		}
		return false
	}
}

// DeviceObjects is the kind of devices that Device objects describe. The plugin deviceshare always enables it.
const DeviceObjects = "Device objects"

// Switches returns the kinds of devices that a configuration enables: DeviceObjects, and the kinds enabled by arguments of
// upstream's deviceshare plugin. They cannot change while the process runs. Nodes get their ledgers when they enter the
// cache, which from then on leaves these resources out of its sums, and upstream registers the kinds once. In upstream, a
// kind stays enabled when its argument is removed, and two kinds that exclude each other end the process.
func Switches(tiers []conf.Tier) []string {
	var on []string
	for _, tier := range tiers {
		for _, option := range tier.Plugins {
			if option.Name != deviceshare.PluginName {
				continue
			}
			on = append(on, DeviceObjects)
			for _, argument := range []string{
				deviceshare.GPUSharingPredicate, deviceshare.GPUNumberPredicate, deviceshare.VGPUEnable,
				deviceshare.AscendMindClusterVNPU, deviceshare.AscendHAMiVNPUEnable,
			} {
				enabled := false
				vcframework.Arguments(option.Arguments).GetBool(&enabled, argument)
				if enabled {
					on = append(on, argument)
				}
			}
		}
	}
	slices.Sort(on)
	return on
}

// Unchanged returns an error if the enabled kinds of devices differ from the kinds at the start of the process.
func Unchanged(began, now []string) error {
	if slices.Equal(began, now) {
		return nil
	}
	return fmt.Errorf("plugin %q: found %s, but the scheduler started with %s; kinds of devices cannot change while it runs, restart it",
		deviceshare.PluginName, listed(now), listed(began))
}

func listed(switches []string) string {
	if len(switches) == 0 {
		return "no kind enabled"
	}
	return strings.Join(switches, ", ") + " enabled"
}

// SwitchOn passes the arguments of upstream's deviceshare plugin to upstream's code at the start. Upstream itself reads
// them when the first session opens. That is too late for nodes that are already in the cache: they would have no ledger
// until they change, and until then pods would be bound there without devices.
func SwitchOn(tiers []conf.Tier) {
	for _, tier := range tiers {
		for _, option := range tier.Plugins {
			if option.Name == deviceshare.PluginName {
				deviceshare.New(option.Arguments)
			}
		}
	}
}

// Own gives each node of a snapshot its own ledgers. Upstream's copy of a node shares its ledgers with the cache's node.
// The cache changes them under a lock that sessions do not hold, and changes by a session would stay in them. Each new
// ledger is computed from the pods on the snapshot's node, so that it is correct even if the cache's ledger is not.
//
// A Cache calls Own on each snapshot, before the nodes are used in any other way.
func Own(nodes map[string]*api.NodeInfo) {
	kinds := switchedOn()
	if len(kinds) == 0 {
		return
	}
	for _, node := range nodes {
		for _, kind := range kinds {
			if ledger := vacant(node, kind.name); ledger != nil {
				node.Others[kind.name] = ledger
				enter(ledger, podsWith(node, kind.holds))
			}
		}
	}
}

// vacant returns a copy of the node's ledger of the kind without entries; nil if the node has no such ledger. It reads only
// data that never changes.
func vacant(node *api.NodeInfo, kind string) api.Devices {
	switch d := node.Others[kind].(type) {
	case *gpushare.GPUDevices:
		if d == nil {
			return nil
		}
		ledger := &gpushare.GPUDevices{Name: d.Name, Device: make(map[int]*gpushare.GPUDevice, len(d.Device))}
		for i, gpu := range d.Device {
			ledger.Device[i] = gpushare.NewGPUDevice(gpu.ID, gpu.Memory)
		}
		return ledger
	case *vgpu.GPUDevices:
		if d == nil {
			return nil
		}
		ledger := &vgpu.GPUDevices{Name: d.Name, Mode: d.Mode, Score: d.Score, Sharing: d.Sharing, Device: make(map[int]*vgpu.GPUDevice, len(d.Device))}
		for i, gpu := range d.Device {
			ledger.Device[i] = vacantVGPU(gpu)
		}
		return ledger
	case *vnpu.NPUDevices:
		if d == nil {
			return nil
		}
		return vnpu.NewNPUDevices(d.Name, node.Node) // plugin deviceshare reads the chips when the session opens
	case *hami.AscendDevices:
		if d == nil {
			return nil
		}
		ledger := &hami.AscendDevices{NodeName: d.NodeName, Type: d.Type, Policy: d.Policy, Devices: make(map[string]*hami.AscendDevice, len(d.Devices))}
		for id, npu := range d.Devices {
			own := *npu
			own.DeviceUsage = &vcdevices.DeviceUsage{}
			ledger.Devices[id] = &own
		}
		return ledger
	default:
		return nil
	}
}

// vacantVGPU returns a copy of the GPU without pods. It also resets upstream's metrics of the GPU, to which each added pod
// adds.
func vacantVGPU(gpu *vgpu.GPUDevice) *vgpu.GPUDevice {
	vgpu.VGPUDevicesSharedNumber.WithLabelValues(gpu.UUID, gpu.Node).Set(0)
	vgpu.VGPUDevicesAllocatedMemory.WithLabelValues(gpu.UUID, gpu.Node).Set(0)
	vgpu.VGPUDevicesAllocatedCores.WithLabelValues(gpu.UUID, gpu.Node).Set(0)
	return &vgpu.GPUDevice{
		ID: gpu.ID, Node: gpu.Node, UUID: gpu.UUID, Memory: gpu.Memory, Number: gpu.Number, Type: gpu.Type, Health: gpu.Health,
		PodMap: map[string]*vgpu.GPUUsage{}, MigTemplate: gpu.MigTemplate, MigUsage: config.MigInUse{Index: -1},
	}
}

// enter adds the pods' devices to the ledger.
func enter(ledger api.Devices, pods []*v1.Pod) {
	for _, pod := range pods {
		ledger.AddResource(pod)
	}
}

// podsWith returns the pods on the node that have the annotation, in the order of their names: a ledger may depend on
// the order of its entries.
func podsWith(node *api.NodeInfo, annotation string) []*v1.Pod {
	var pods []*v1.Pod
	for _, task := range node.Tasks {
		if _, ok := task.Pod.Annotations[annotation]; ok {
			pods = append(pods, task.Pod)
		}
	}
	slices.SortFunc(pods, func(l, r *v1.Pod) int {
		if c := strings.Compare(l.Namespace, r.Namespace); c != 0 {
			return c
		}
		return strings.Compare(l.Name, r.Name)
	})
	return pods
}

// chips is the part of a ledger of MindCluster's NPUs that changes while a session is open.
type chips struct {
	chips map[int]*vnpu.VChip
	users map[string]map[types.UID]struct{}
}

func (c chips) clone() chips {
	own := chips{make(map[int]*vnpu.VChip, len(c.chips)), make(map[string]map[types.UID]struct{}, len(c.users))}
	for id, chip := range c.chips {
		copied := *chip
		copied.PodMap, copied.ID = maps.Clone(chip.PodMap), slices.Clone(chip.ID)
		own.chips[id] = &copied
	}
	for template, users := range c.users {
		own.users[template] = maps.Clone(users)
	}
	return own
}
