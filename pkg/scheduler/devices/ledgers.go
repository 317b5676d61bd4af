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

// kind is a kind of devices that upstream shares among pods. For each kind, a node has a ledger in its field Others:
// upstream's record of the node's devices and of the pods that have them.
type kind struct {
	name string
	// holds is the annotation that lists the devices of a pod. The record of a node's devices (the ledger) is computed
	// only from this annotation of the node's pods.
	holds string
	asks  func(pod *v1.Pod) bool
	// lock is the annotation that locks a node; empty if nodes are not locked. lockStays reports whether a pod needs the
	// lock until the device plugin has assigned its devices, and not only while the scheduler chooses them.
	lock      string
	lockStays bool
}

// PodKeys returns the keys of labels and annotations that pods use to request, hold and share devices of upstream's
// kinds. A key that ends in a slash stands for all keys with that prefix.
func PodKeys() []string {
	return []string{
		"nvidia.com/", "volcano.sh/vgpu-mode", "volcano.sh/gpu-index",
		"hami.io/", "huawei.com/", "ring-controller.atlas", "vnpu-level", "vnpu-dvpp",
	}
}

// Asker returns a function that reports whether a pod requests devices of an enabled kind.
func Asker() func(pod *v1.Pod) bool {
	kinds := switchedOn()
	return func(pod *v1.Pod) bool { return requestsAny(kinds, pod) }
}

// requestsAny reports whether the pod requests devices of any of the kinds.
func requestsAny(kinds []kind, pod *v1.Pod) bool {
	return slices.ContainsFunc(kinds, func(k kind) bool { return k.asks(pod) })
}

// switchedOn returns the enabled kinds of devices, which do not change while the process runs. By default no kind is
// enabled.
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

// limits returns a function that reports whether any container of a pod has a limit for one of the named resources.
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

// Switches returns the kinds of devices that a configuration enables. These are DeviceObjects, and the kinds enabled by
// arguments of upstream's deviceshare plugin.
//
// The kinds cannot change while the process runs. When a node enters the cache, it gets a record of its devices (a
// ledger) for each of upstream's kinds. Resources that a ledger names (GetIgnoredDevices) are from then on left out of
// the resources of nodes and pods. Upstream registers the kinds only once: a kind stays enabled when its argument is
// removed, and two kinds that exclude each other end the process.
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

// Unchanged returns an error if the kinds of devices that are enabled now differ from the kinds at the start of the
// process.
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

// SwitchOn passes the arguments of upstream's deviceshare plugin to upstream's code when the process starts. Upstream
// itself reads the arguments when the first session opens. That is too late for nodes that are already in the cache.
// They would have no record of their devices (ledger) until they change, and pods would be bound to them without
// devices.
func SwitchOn(tiers []conf.Tier) {
	for _, tier := range tiers {
		for _, option := range tier.Plugins {
			if option.Name == deviceshare.PluginName {
				deviceshare.New(option.Arguments)
			}
		}
	}
}

// Own gives each node of a snapshot its own ledgers, which record the node's devices and the pods that have them.
// Upstream's copy of a node shares its ledgers with the cache's node. That would have two effects: the cache changes
// shared ledgers under a lock that sessions do not hold, and changes by a session would stay in the cache. Each new
// ledger is computed from the pods on the snapshot's node, so it is correct even if the cache's ledger is not.
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

// vacant returns a copy of the node's ledger (its record of devices) of the given kind, in which no pod has devices;
// nil if the node has no such ledger. It reads only data of the ledger that never changes.
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
		return vnpu.NewNPUDevices(d.Name, node.Node) // plugin deviceshare reads the NPUs when the session opens
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

// vacantVGPU returns a copy of the GPU without pods. It also sets upstream's metrics of the GPU to 0, because adding
// the pods again increases them.
func vacantVGPU(gpu *vgpu.GPUDevice) *vgpu.GPUDevice {
	vgpu.VGPUDevicesSharedNumber.WithLabelValues(gpu.UUID, gpu.Node).Set(0)
	vgpu.VGPUDevicesAllocatedMemory.WithLabelValues(gpu.UUID, gpu.Node).Set(0)
	vgpu.VGPUDevicesAllocatedCores.WithLabelValues(gpu.UUID, gpu.Node).Set(0)
	return &vgpu.GPUDevice{
		ID: gpu.ID, Node: gpu.Node, UUID: gpu.UUID, Memory: gpu.Memory, Number: gpu.Number, Type: gpu.Type, Health: gpu.Health,
		PodMap: map[string]*vgpu.GPUUsage{}, MigTemplate: gpu.MigTemplate, MigUsage: config.MigInUse{Index: -1},
	}
}

// enter records in the ledger, a node's record of its devices, the devices that the pods have according to their
// annotations.
func enter(ledger api.Devices, pods []*v1.Pod) {
	for _, pod := range pods {
		ledger.AddResource(pod)
	}
}

// podsWith returns the pods on the node that have the annotation. The pods are sorted by name, because the node's
// record of devices may depend on the order in which pods are added to it.
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

// chips holds the data of a node's record of MindCluster NPUs that changes while a session is open.
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
