// SPDX-License-Identifier: Apache-2.0

package fragmentation

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
)

// TaskClass is a class of tasks with equal requests. The zero value requests nothing.
type TaskClass struct {
	// MilliCPU and Memory (in bytes) are the requests of one task.
	MilliCPU, Memory int64
	// GPUs is the number of GPUs of a task. Core and GPUMemory are the requested parts of each GPU, in hundredths; 100 is
	// a whole GPU.
	GPUs, Core, GPUMemory int64
	// NICs is the number of NICs of a task. NICShare is the requested part of each NIC, in hundredths.
	NICs, NICShare int64
	// Models are the GPU models that the task allows, in the form that function Models returns; empty if the task allows
	// any model.
	Models string
}

// isPossible reports whether a real machine could be large enough for a task of the class.
func (k *TaskClass) isPossible() bool {
	return k.GPUs <= maxDevices && k.NICs <= maxDevices && k.Core <= 100 && k.GPUMemory <= 100 && k.NICShare <= 100 &&
		k.MilliCPU >= 0 && k.MilliCPU <= maxMilliCPU && k.Memory >= 0 && k.Memory <= maxMemory
}

// share returns the part that a task of the class needs of each of its GPUs.
func (k *TaskClass) share() GPU { return GPU{k.Core, k.GPUMemory} }

// maxModels limits how many GPU models a task may name. A task that names more models excludes few, so it counts as a
// task that allows any model.
const maxModels = 16

// Models returns the value of TaskClass.Models for a task that allows the named GPU models.
func Models(names ...string) string {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) > maxModels {
		return ""
	}
	return strings.Join(names, "|")
}

// allows reports whether a task of the class may have GPUs of the model.
func (k *TaskClass) allows(model string) bool {
	if k.Models == "" {
		return true
	}
	for allowed := range strings.SplitSeq(k.Models, "|") {
		if allowed == model {
			return true
		}
	}
	return false
}

// rounded returns the class with its CPU and memory rounded up to one of four values for each power of two. Classes
// that are equal after rounding count as one class, so that tasks with slightly different requests do not make separate
// classes.
func (k TaskClass) rounded() TaskClass {
	k.MilliCPU, k.Memory = roundUp(k.MilliCPU), roundUp(k.Memory)
	return k
}

// roundUp returns the smallest number with at most three significant bits that is not below n; 0 for a negative n.
func roundUp(n int64) int64 {
	if n < 8 {
		return max(n, 0)
	}
	step := int64(1) << (bits.Len64(uint64(n-1)) - 3)
	return (n + step - 1) / step * step
}

// compare orders classes by their fields, so that results do not depend on the iteration order of maps.
func (k *TaskClass) compare(other *TaskClass) int {
	return cmp.Or(
		cmp.Compare(k.Core, other.Core), cmp.Compare(k.GPUMemory, other.GPUMemory), cmp.Compare(k.GPUs, other.GPUs),
		cmp.Compare(k.MilliCPU, other.MilliCPU), cmp.Compare(k.Memory, other.Memory),
		cmp.Compare(k.NICs, other.NICs), cmp.Compare(k.NICShare, other.NICShare), cmp.Compare(k.Models, other.Models),
	)
}
