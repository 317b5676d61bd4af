// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/volcano-prebind/volcano-prebind/internal/quantity"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
)

// Annotations of pods that vendors' device plugins read in addition to, or instead of, device-allocated.
const (
	// bindTimestamp and predicateTime hold the time at which the pod's devices were chosen, in nanoseconds since 1970.
	// When the kubelet asks a device plugin for devices, the device plugin serves the pod with the earliest time.
	bindTimestamp = "scheduling.koordinator.sh/bind-timestamp"
	predicateTime = "predicate-time"
	// gpuMinors holds the minors of the pod's GPUs, such as "0,1".
	gpuMinors = "scheduling.koordinator.sh/gpu-minors"
	// huaweiNPUCore holds the minors of the pod's NPUs, or one minor with a template, such as "0-vir01". huawei310P holds
	// the names of the pod's NPUs, such as "Ascend310P-0,Ascend310P-1".
	huaweiNPUCore = "huawei.com/npu-core"
	huawei310P    = "huawei.com/Ascend310P"
	// cambriconAssigned is "false" until the device plugin has seen the pod. cambriconProfile holds the minor, cores and
	// memory of the pod's device, such as "0_10_4".
	cambriconAssigned = "CAMBRICON_DSMLU_ASSIGHED"
	cambriconProfile  = "CAMBRICON_DSMLU_PROFILE"
	// metaxAllocated holds JSON: for each container, the UUID, compute and memory of its devices.
	metaxAllocated = "metax-tech.com/gpu-devices-allocated"
)

// The units in which vendors' device plugins count memory, in bytes.
const (
	cambriconMemoryUnit = 256 << 20
	metaxMemoryUnit     = 1 << 20
)

// duo310P is the model of NPUs whose device plugin reads the annotation huawei310P instead of huaweiNPUCore.
const duo310P = "Ascend-310P3-300I-DUO"

// vendors are the vendors whose device plugins read annotations in their own formats. adapt sets these annotations on a
// pod. lock is the annotation that locks a node while a pod waits for its devices. It is empty if several pods may wait
// at the same time.
var vendors = map[string]struct {
	adapt func(pod *v1.Pod, inventory *allocator.Inventory, gpus []allocator.DeviceAllocation) error
	lock  string
	// most is the maximum number of devices of a pod; 0 for no limit. unit is the unit, in bytes, in which the device
	// plugin counts memory. A pod must have at least one unit of each of its devices.
	most int
	unit int64
}{
	"huawei":    {adapt: adaptHuawei},
	"cambricon": {adapt: adaptCambricon, lock: "cambricon.com/dsmlu.lock", most: 1, unit: cambriconMemoryUnit},
	"metax":     {adapt: adaptMetaX, lock: "hami.io/mutex.lock", unit: metaxMemoryUnit},
}

// vendorRefusal returns why the device plugin of the node's vendor cannot serve the request. It returns an empty text
// if the device plugin can serve it, or if the device plugin does not read the scheduler's choice.
func (s *settings) vendorRefusal(request *allocator.Request, inventory *inventory) string {
	amounts, count, _ := request.Wants(allocator.GPU)
	if !s.adaption || count == 0 {
		return ""
	}
	vendor := vendors[inventory.Vendor]
	switch {
	case vendor.most > 0 && count > vendor.most:
		return fmt.Sprintf("node(s) with devices of %s, whose device plugin allocates at most %d to a pod: %d requested", inventory.Vendor, vendor.most, count)
	case vendor.unit > 0 && (amounts[allocator.Core] == 0 || inventory.MostMemory(amounts) < vendor.unit):
		return fmt.Sprintf("node(s) with devices of %s, whose device plugin requires %s and at least %s of %s for each", inventory.Vendor,
			allocator.Core.Name(), quantity.Of(v1.ResourceMemory, float64(vendor.unit)), allocator.Memory.Name())
	case inventory.Vendor == "huawei" && inventory.Model == duo310P && request.IsTemplated():
		return fmt.Sprintf("node(s) with devices of model %s, which cannot be divided by templates", duo310P)
	}
	return ""
}

// adapt sets the annotations of the pod from which device plugins read the pod's devices.
func adapt(pod *v1.Pod, inventory *allocator.Inventory, allocation *allocator.Allocation) error {
	pod.Annotations[bindTimestamp] = now()
	gpus := allocation[allocator.GPU]
	if len(gpus) == 0 {
		return nil
	}
	pod.Annotations[gpuMinors] = minorsOf(gpus, "")
	if vendor, known := vendors[inventory.Vendor]; known {
		if err := vendor.adapt(pod, inventory, gpus); err != nil {
			return fmt.Errorf("annotating the pod for the device plugin of %s: %w", inventory.Vendor, err)
		}
	}
	return nil
}

func now() string { return strconv.FormatInt(time.Now().UnixNano(), 10) }

func minorsOf(gpus []allocator.DeviceAllocation, prefix string) string {
	minors := make([]string, len(gpus))
	for i, gpu := range gpus {
		minors[i] = prefix + strconv.Itoa(int(gpu.Minor))
	}
	return strings.Join(minors, ",")
}

func adaptHuawei(pod *v1.Pod, inventory *allocator.Inventory, npus []allocator.DeviceAllocation) error {
	pod.Annotations[predicateTime] = now()
	template := npus[0].Template
	switch {
	case inventory.Model == duo310P && template != "":
		return fmt.Errorf("NPUs of model %s cannot be divided, but the pod requests a share of one (template %s); request whole NPUs", duo310P, template)
	case inventory.Model == duo310P:
		pod.Annotations[huawei310P] = minorsOf(npus, "Ascend310P-")
	case template != "":
		pod.Annotations[huaweiNPUCore] = fmt.Sprintf("%d-%s", npus[0].Minor, template)
	default:
		pod.Annotations[huaweiNPUCore] = minorsOf(npus, "")
	}
	return nil
}

func adaptCambricon(pod *v1.Pod, _ *allocator.Inventory, mlus []allocator.DeviceAllocation) error {
	if len(mlus) > 1 {
		return fmt.Errorf("the pod has %d devices, must be 1", len(mlus))
	}
	core, memory, err := coreAndMemory(&mlus[0], cambriconMemoryUnit)
	if err != nil {
		return err
	}
	pod.Annotations[cambriconAssigned] = "false"
	pod.Annotations[cambriconProfile] = fmt.Sprintf("%d_%d_%d", mlus[0].Minor, core, memory)
	return nil
}

func adaptMetaX(pod *v1.Pod, _ *allocator.Inventory, gpus []allocator.DeviceAllocation) error {
	type device struct {
		UUID    string `json:"uuid"`
		Compute int64  `json:"compute"`
		VRAM    int64  `json:"vRam"`
	}
	given := make([]device, len(gpus))
	for i := range gpus {
		core, memory, err := coreAndMemory(&gpus[i], metaxMemoryUnit)
		if err != nil {
			return err
		}
		given[i] = device{gpus[i].UUID, core, memory}
	}
	text, err := json.Marshal([][]device{given})
	if err != nil {
		return err
	}
	pod.Annotations[metaxAllocated] = string(text)
	return nil
}

// coreAndMemory returns how much the pod has of the device: the cores in hundredths, and the memory as a number of
// units.
func coreAndMemory(d *allocator.DeviceAllocation, unit int64) (core, memory int64, err error) {
	core, memory = d.Amounts[allocator.Core], d.Amounts[allocator.Memory]/unit
	if core == 0 || memory == 0 {
		return 0, 0, fmt.Errorf("the pod has %s %d and %s %s of gpu %d, must be above 0 and at least %s", allocator.Core.Name(), core,
			allocator.Memory.Name(), quantity.Of(v1.ResourceMemory, float64(d.Amounts[allocator.Memory])), d.Minor, quantity.Of(v1.ResourceMemory, float64(unit)))
	}
	return core, memory, nil
}
